"""Tensors of an adapter of which nothing can be made: two for one place, of no module, without floats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfconvert.dtypes.convert import FLOATS
from hfconvert.errors import Problem, source_problem
from hfconvert.keymap.fold import listed
from hfconvert.lora.naming import Key
from hfconvert.lora.place import GIVE, Place, Share
from hfconvert.lora.settings import Settings
from hfconvert.tensors.lazy import LazyTensor

_FACTORS = ("lora_", "token_adapter.", "trainable_tokens_delta")


def twice(keys: Mapping[str, Key], label: str) -> Iterator[Problem]:
    """Names that say the same of one module: one of the tensors would be lost."""
    names: dict[Key, list[str]] = {}
    for name, key in keys.items():
        names.setdefault(key, []).append(name)
    several = [found for found in names.values() if len(found) > 1]
    if several:
        yield source_problem(
            f"{len(several)} parameters of modules are there more than once: {listed(several[0])}"
            + (" and others" if len(several) > 1 else ""),
            why="several adapters were saved into one file, or it was put together from two",
            do="keep the tensors of one adapter in a copy, or save each adapter by itself",
            subject=label,
            check="lora",
        )


def of_no_module(
    shared: Mapping[str, LazyTensor], settings: Settings, label: str
) -> Iterator[Problem]:
    """Tensors beside the modules that the method does not have."""
    unknown = [name for name in shared if name.partition(".")[0] not in settings.method.shared]
    if unknown:
        yield source_problem(
            f"{len(unknown)} tensors belong to no module: {listed(unknown)}",
            why=f"{settings.peft_type} keeps no such tensors beside its modules; names were cut, perhaps",
            do="give the tensors the names of their modules, or remove what does not belong to the adapter",
            subject=label,
            check="lora",
        )


def single_numbers(place: Place) -> Iterator[Problem]:
    """Factors and rows that are a number without dimensions."""
    for name, tensor in place.part.tensors.items():
        if not tensor.spec.shape and name.startswith(_FACTORS):
            yield place.problem(
                f"{name} is a single number",
                why="the file is damaged, or was made by something else than PEFT",
                do="fetch the adapter again",
            )


def no_floats(place: Place, share: Share) -> Iterator[Problem]:
    """Sums of which one side holds no floating values, and tensors of another kind than they replace."""
    for name, replacement in share.replaced.items():
        before, code = place.base.tensor_or_none(name), replacement.tensor.spec.dtype.code
        if before is not None and (before.spec.dtype.code in FLOATS) != (code in FLOATS):
            yield place.problem(
                f"{name} of the base is {before.spec.dtype.code}, what takes its place is {code}",
                why="the file is damaged, or base or adapter were quantised",
                do=GIVE,
            )
    for name, term in share.terms:
        tensor = place.base.tensor_or_none(name)
        if tensor is not None and tensor.spec.dtype.code not in FLOATS:
            yield place.problem(
                f"{name} of the base is {tensor.spec.dtype.code}, to which nothing can be added",
                why="it is quantised in a way that the configuration does not tell, or is no weight",
                do=GIVE,
            )
        if term.kind in ("module", "whole"):  # PEFT itself says what it cannot take
            continue
        for parameter, one in term.tensors.items():
            if one.spec.dtype.code not in FLOATS:
                yield place.problem(
                    f"{parameter} of its update is {one.spec.dtype.code}, which is no floating type",
                    why="the file is damaged, or the adapter was quantised",
                    do="fetch the adapter again, as it was trained",
                )
