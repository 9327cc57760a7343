"""Merge adapters into a checkpoint: from base and adapters to the checkpoint with its merging nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from hfconvert.errors import Problem, UserError, raise_any
from hfconvert.findings import Finding, info
from hfconvert.lora.adapter import Adapter
from hfconvert.lora.assets import said_of_assets
from hfconvert.lora.base import Base
from hfconvert.lora.changed_config import change_config
from hfconvert.lora.identity import other_bases, said_of_bases
from hfconvert.lora.match import families_of, match
from hfconvert.lora.merges import Merges, Result, Setting, Sum
from hfconvert.lora.model_engine import (
    needs_model,
    unfit_for_model,
    unfit_for_modules,
    whole_model,
)
from hfconvert.lora.nodes import Making, merged
from hfconvert.lora.parents import parent_of
from hfconvert.lora.quantized import make_plain
from hfconvert.lora.reading import Asked, open_adapter
from hfconvert.lora.settle import Settled, State, settle
from hfconvert.lora.whole_model import WholeModel
from hfconvert.recipe.lora import Lora
from hfconvert.tensors.checkpoint import Checkpoint, Dropped, Entry
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.tally import Tally


def merge_adapters(checkpoint: Checkpoint, lora: Lora, setting: Setting, tally: Tally) -> Result:
    """Open the adapters, match them with the base, and put merging nodes in place.

    UserError with everything that is wrong with any of them.
    """
    adapters = _opened(lora, setting.where)
    parent = partial(parent_of, setting.config, setting.source, setting.folder)
    plain = make_plain(checkpoint, setting.config, lora.base_quantization, parent, setting.where)
    base = Base(plain.checkpoint, setting.config, setting.ties)
    found = [match(adapter, base, lora.peft_version) for adapter in adapters]
    others = other_bases(adapters, lora.base, setting.source, setting.where)
    raise_any([*(problem for one in found for problem in one.problems), *others])
    settled = settle(base, found, lora.on_tie, setting.where)
    changed = change_config(base, settled, adapters)
    raise_any(changed.problems)
    native = lora.compute_dtype == "native"
    model = None
    if lora.engine == "module":
        raise_any(unfit_for_modules(adapters, setting))
    elif lora.engine == "model" or needs_model(adapters):
        raise_any(unfit_for_model(adapters, settled, plain.config, setting))
        model = whole_model(checkpoint, adapters, setting, native=native)
    making = Making(native, tally, _finder(base, settled), model)
    entries, sums = _merge(base, settled, making)
    gone = [
        Dropped(name, "lora: the classifier of the adapter takes its place")
        for name in changed.dropped
    ]
    for dropped in gone:
        entries.pop(dropped.name)
    touched, targeted = families_of(found)
    config = {**plain.config, **changed.values}
    merges = Merges(adapters, sums, touched, targeted, making.native, config, settled.untied)
    findings = (
        *(finding for adapter in adapters for finding in adapter.findings),
        *(finding for one in found for finding in one.findings),
        *(one for adapter in adapters for one in said_of_assets(adapter.label, adapter.root)),
        *plain.findings,
        *said_of_bases(adapters, lora.base, setting.source),
        *settled.findings,
        *changed.findings,
        *_said_of_engine(sums, model, needs_model(adapters)),
        *_totals(sums, touched),
    )
    return Result(plain.checkpoint.with_entries(entries, *gone), merges, findings)


def _opened(lora: Lora, where: Callable[..., str]) -> tuple[Adapter, ...]:
    """All of them, or a UserError with what is wrong with any."""
    adapters: list[Adapter] = []
    problems: list[Problem] = []
    for number, one in enumerate(lora.adapters):
        asked = Asked(
            location=one.location,
            weight=one.weight,
            alpha=lora.lora_alpha,
            where=where("lora", "adapters", number, "adapter"),
            where_alpha=where("lora", "lora_alpha"),
        )
        try:
            adapters.append(open_adapter(asked))
        except UserError as error:
            problems += error.problems
    raise_any(problems)
    return tuple(adapters)


def _finder(base: Base, settled: Settled) -> Callable[[str], LazyTensor]:
    """Tensors of the base by name, as they are before updates."""

    def find(name: str) -> LazyTensor:
        state = settled.states.get(name)
        return state.base if state else base.checkpoint[base.ties.get(name, name)].tensor

    return find


def _merge(base: Base, settled: Settled, making: Making) -> tuple[dict[str, Entry], dict[str, Sum]]:
    """All entries in their order; new names behind the one that they were tied to, or at the end."""
    behind: dict[str, list[str]] = {}
    new = [name for name in settled.states if name not in base.checkpoint]
    for name in new:
        behind.setdefault(base.ties.get(name, ""), []).append(name)
    entries: dict[str, Entry] = {}
    sums: dict[str, Sum] = {}
    for name, entry in base.checkpoint.items():
        entries[name] = _entry(name, entry, settled.states.get(name), making, sums)
        for other in behind.get(name, ()):
            entries[other] = _entry(other, entry, settled.states[other], making, sums)
    for name in behind.get("", ()):
        entries[name] = _entry(name, None, settled.states[name], making, sums)
    return entries, sums


def _entry(
    name: str, before: Entry | None, state: State | None, making: Making, sums: dict[str, Sum]
) -> Entry:
    if state is None:
        return before or Entry(making.find(name), ())
    labels = [term.adapter for term in state.terms]
    sources: tuple[str, ...] = before.sources if before else ()
    if state.replacement:
        labels.insert(0, state.replacement.adapter)
        sources = (state.replacement.name,)
    tensor = state.base
    if state.terms or tensor.spec.dtype != state.dtype:
        tensor = merged(name, state.base, state.terms, state.dtype, making)
    if state.terms:
        sums[name] = _sum(name, state, making)
    steps = (*(before.steps if before else ()), *(f"lora {one}" for one in dict.fromkeys(labels)))
    return Entry(tensor, sources, steps)


def _sum(name: str, state: State, making: Making) -> Sum:
    module, _, output = name.rpartition(".")
    layers = [term.layer for term in state.terms if term.layer is not None]
    names = layers[0].parameters if layers else ()
    bases = {parameter: making.find(f"{module}.{parameter}") for parameter in names}
    return Sum(state.base, state.terms, output, bases, making.model)


def _said_of_engine(
    sums: Mapping[str, Sum], model: WholeModel | None, need: str
) -> Iterator[Finding]:
    """Which way the updates are computed, and why."""
    kinds = {term.kind for one in sums.values() for term in one.terms}
    if model is not None:
        reason = need or "as the recipe says"
        yield info("lora", "", f"engine model: PEFT merges the whole model; {reason}")
    elif "module" in kinds:
        whole = [name for name, one in sums.items() if any(t.kind == "module" for t in one.terms)]
        message = f"engine module: {len(whole)} tensors by PEFT, module by module; others in blocks"
        yield info("lora", "", message, "their method is more than a product that is added")
    elif sums:
        yield info("lora", "", "engine module: all updates are plain, and are added in blocks")


def _totals(sums: Mapping[str, Sum], touched: Mapping[str, int]) -> Iterator[Finding]:
    families = ", ".join(f"{name} {count}" for name, count in touched.items())
    yield info("lora", "", f"{len(sums)} tensors are merged; modules by family: {families}")
