"""How the tensors of a checkpoint fit the names and shapes that a model class wants. Torch-free.

Two answers: `exact`, by the names that the class has on disk, and `loader`, by what transformers makes of the
names when it loads them (old names of weights, a base model's prefix, a fused form).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hfconvert.checks.correspond import likely_prefix

Shape = tuple[int, ...]

# Masks, positions and rotary tables that older versions stored and present ones compute.
_COMPUTED = re.compile(
    r"(^|\.)(position_ids|masked_bias|rotary_emb\.inv_freq|rotary_pos_emb\.inv_freq|causal_mask)$"
)
_OLD_MASK = re.compile(r"(^|\.)(attn|attention|self_attention)\.bias$")
_COUNTER = re.compile(r"(^|\.)num_batches_tracked$")
_EXTRA_STATE = re.compile(r"(^|\.)_extra_state$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a class wants: shapes by name, `disk` as checkpoints have them, `native` as the module does.

    `ties` maps a name to the one it is tied to; `may_miss` and `may_exceed` are patterns of names that the
    class itself says are no fault; `buffers` are all its buffers, stored or not.
    """

    disk: Mapping[str, Shape]
    native: Mapping[str, Shape]
    floats: set[str]
    ties: Mapping[str, str]
    may_miss: tuple[str, ...] = ()
    may_exceed: tuple[str, ...] = ()
    buffers: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A tensor of the checkpoint."""

    is_float: bool
    shape: Shape


def fitted(
    wanted: Wanted, tensors: Mapping[str, Found], rename: Callable[[str], str]
) -> dict[str, Any]:
    """Both answers, and what was passed over by rule, as JSON values.

    Each answer has `missing`, `unexpected` (names) and `mismatched` (name, found, wanted), and `cause` where
    one prefix would mend much.
    """
    passed: dict[str, int] = {"buffers": 0, "extra_state": 0}
    kept = dict(_kept(wanted, tensors, passed))
    natives = {name: name if name in wanted.native else rename(name) for name in wanted.disk}
    exact = _Fit(wanted, natives, lambda name: name)
    loader = _Fit(wanted, natives, rename)
    for name, tensor in kept.items():
        exact.add(name, tensor)
        loader.add(name, tensor)
    return {
        "expected": len(wanted.disk),
        "found": len(tensors),
        **passed,
        "ties": len(loader.tied()),
        "exact": exact.result(),
        "loader": loader.result(),
    }


class _Fit:
    """Tensors put to the names of a class, one after the other."""

    def __init__(
        self, wanted: Wanted, natives: Mapping[str, str], rename: Callable[[str], str]
    ) -> None:
        self._wanted = wanted
        self._natives = natives  # native names by the names on disk
        self._rename = rename
        self._parts: dict[str, list[str]] = {}  # of a native name, the names on disk
        for name, native in natives.items():
            self._parts.setdefault(native, []).append(name)
        self._there: set[str] = set()  # names on disk
        self._unexpected: list[str] = []
        self._mismatched: list[tuple[str, str, str]] = []

    def add(self, name: str, tensor: Found) -> None:
        """Put a tensor where its name says."""
        wanted = self._wanted
        target = self._native(name)
        if name in wanted.disk:
            self._there.add(name)
            self._compare(name, tensor, wanted.disk[name])
        elif target not in wanted.native:
            self._unexpected.append(name)
        else:
            parts = self._parts.get(target, [target])
            self._there.update(parts)
            whole = wanted.native[target]
            if len(parts) == 1 or tensor.shape == whole or target == name:
                self._compare(name, tensor, whole)

    def tied(self) -> list[str]:
        """Names on disk that are absent and come from a tie."""
        present = {self._native(name) for name in self._there}
        groups = _groups(self._wanted.ties)
        return [
            name
            for name in self._wanted.disk
            if name not in self._there
            and any(self._native(name) in group and group & present for group in groups)
        ]

    def result(self) -> dict[str, Any]:
        """The answer, once all the tensors are in."""
        tied = set(self.tied())
        missing = [
            name
            for name in self._wanted.disk
            if name not in self._there | tied and not self._may_miss(name)
        ]
        cause = likely_prefix(self._unexpected, missing)
        return {
            "missing": missing,
            "unexpected": self._unexpected,
            "mismatched": [list(one) for one in self._mismatched],
            "cause": list(cause) if cause else None,
        }

    def _native(self, name: str) -> str:
        if name in self._wanted.native:
            return name
        return self._natives.get(name) or self._rename(name)

    def _may_miss(self, name: str) -> bool:
        return bool(_COUNTER.search(name)) or _any(self._wanted.may_miss, self._native(name))

    def _compare(self, name: str, tensor: Found, shape: Shape) -> None:
        if tensor.shape != shape:
            self._mismatched.append((name, str(list(tensor.shape)), str(list(shape))))
        elif self._native(name) in self._wanted.floats and not tensor.is_float:
            self._mismatched.append((name, "integers", "floating point"))


def _groups(ties: Mapping[str, str]) -> list[set[str]]:
    """Names that are one tensor: a source of ties with all that are tied to it. Any of them is enough."""
    groups: dict[str, set[str]] = {}
    for name, source in ties.items():
        groups.setdefault(source, {source}).add(name)
    return list(groups.values())


def _kept(
    wanted: Wanted, tensors: Mapping[str, Found], passed: dict[str, int]
) -> Iterator[tuple[str, Found]]:
    """The tensors without those that no class stores any more; how many those are goes into `passed`."""
    for name, tensor in tensors.items():
        if name in wanted.disk or name in wanted.native:
            yield name, tensor
        elif _EXTRA_STATE.search(name):
            passed["extra_state"] += 1
        elif _is_computed(name, tensor, wanted):
            passed["buffers"] += 1
        else:
            yield name, tensor


def _is_computed(name: str, tensor: Found, wanted: Wanted) -> bool:
    mask = _OLD_MASK.search(name) and (len(tensor.shape) == 4 or not tensor.shape)
    return (
        name in wanted.buffers
        or bool(_COMPUTED.search(name))
        or bool(mask)
        or _any(wanted.may_exceed, name)
    )


def _any(patterns: Iterable[str], name: str) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)
