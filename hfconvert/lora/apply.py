"""Merge adapters into a checkpoint: from base and adapters to the checkpoint with its merging nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hfconvert.errors import raise_any
from hfconvert.findings import Finding, info
from hfconvert.lora.adapter import Adapter
from hfconvert.lora.base import Base
from hfconvert.lora.identity import check_identity
from hfconvert.lora.match import Matched, families_of, match
from hfconvert.lora.nodes import Making, merged
from hfconvert.lora.reading import Asked, open_adapter
from hfconvert.lora.terms import Term
from hfconvert.readers.json_text import KeyPath
from hfconvert.recipe.lora import Lora
from hfconvert.tensors.checkpoint import Checkpoint, Entry
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.tally import Tally


@dataclass(frozen=True, slots=True)
class Sum:
    """A tensor that was merged: what it was, and all that is added to it, in order."""

    base: LazyTensor
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Merges:
    """What was merged, for plan, check and report.

    `sums` by the name of the tensor. `touched` and `targeted` count modules by family. `config` are the
    values of the configuration that change, `untied` the names that are written though the base ties them.
    """

    adapters: tuple[Adapter, ...] = ()
    sums: Mapping[str, Sum] = field(default_factory=dict)
    touched: Mapping[str, int] = field(default_factory=dict)
    targeted: Mapping[str, int] = field(default_factory=dict)
    native: bool = False
    config: Mapping[KeyPath, Any] = field(default_factory=dict)
    untied: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The checkpoint with its merges, and what was noticed."""

    checkpoint: Checkpoint
    merges: Merges
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """What the merge knows of its surroundings.

    `config` is the base's configuration, `ties` maps names that are not stored to those they are restored
    from, `source` is the base's identity on the Hub if it has one, `where` gives positions in the recipe.
    """

    config: Mapping[str, Any]
    ties: Mapping[str, str]
    source: str | None
    where: Callable[..., str]


def merge_adapters(checkpoint: Checkpoint, lora: Lora, setting: Setting, tally: Tally) -> Result:
    """Open the adapters, match them with the base, and put merging nodes in place.

    UserError with everything that is wrong with any of them.
    """
    adapters = tuple(_opened(lora, setting.where))
    base = Base(checkpoint, setting.config, setting.ties)
    found = [match(adapter, base, lora.peft_version) for adapter in adapters]
    raise_any(problem for one in found for problem in one.problems)
    identity = check_identity(adapters, lora.base, setting.source, setting.where)
    making = Making(
        lora.compute_dtype == "native",
        tally,
        lambda name: checkpoint[base.ties.get(name, name)].tensor,
    )
    entries, sums = _merge(base, found, making)
    touched, targeted = families_of(found)
    findings = [finding for adapter in adapters for finding in adapter.findings]
    findings += [finding for one in found for finding in one.findings]
    findings += identity
    findings += _totals(sums, touched)
    return Result(
        checkpoint.with_entries(entries),
        Merges(adapters, sums, touched, targeted, making.native),
        tuple(findings),
    )


def _opened(lora: Lora, where: Callable[..., str]) -> Iterator[Adapter]:
    for number, one in enumerate(lora.adapters):
        yield open_adapter(
            Asked(
                location=one.location,
                weight=one.weight,
                alpha=lora.lora_alpha,
                where=where("lora", "adapters", number, "adapter"),
                where_alpha=where("lora", "lora_alpha"),
            )
        )


def _merge(
    base: Base, found: Sequence[Matched], making: Making
) -> tuple[dict[str, Entry], dict[str, Sum]]:
    entries = dict(base.checkpoint.entries)
    sums: dict[str, Sum] = {}
    for name, entry in base.checkpoint.items():
        terms = tuple(term for one in found for term in one.terms.get(name, ()))
        if not terms:
            continue
        dtype = entry.tensor.spec.dtype
        node = merged(name, entry.tensor, terms, dtype, making)
        labels = dict.fromkeys(term.adapter for term in terms)
        entries[name] = Entry(
            node, entry.sources, (*entry.steps, *(f"lora {one}" for one in labels))
        )
        sums[name] = Sum(entry.tensor, terms)
    return entries, sums


def _totals(sums: Mapping[str, Sum], touched: Mapping[str, int]) -> Iterator[Finding]:
    families = ", ".join(f"{name} {count}" for name, count in touched.items())
    yield info("lora", "", f"{len(sums)} tensors are merged; modules by family: {families}")
