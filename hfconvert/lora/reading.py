"""Open an adapter: its weights in any naming, and the configuration that says what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hfconvert.errors import Problem, raise_any, source_problem
from hfconvert.findings import Finding
from hfconvert.keymap.fold import listed
from hfconvert.lora.adapter import Adapter, Part
from hfconvert.lora.fields import wrong_fields
from hfconvert.lora.full_checkpoint import own_names
from hfconvert.lora.kinds import holds_both
from hfconvert.lora.kohya import is_kohya, parse_kohya
from hfconvert.lora.naming import Key, Naming, by_module, naming_of, parse_names
from hfconvert.lora.patterns import unsafe_patterns
from hfconvert.lora.rebuild import Known, rebuild_settings
from hfconvert.lora.settings import ADAPTER_CONFIG, Settings, read_settings
from hfconvert.lora.unfit import of_no_module, twice
from hfconvert.lora.updates import read_floats
from hfconvert.readers.load import Found, Wanted, load
from hfconvert.recipe.location import Location
from hfconvert.tensors.box import full
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.source import LocalFile


@dataclass(frozen=True, slots=True)
class Asked:
    """What the recipe says of one adapter, and where (`recipe.yaml:12:7`)."""

    location: Location
    weight: float
    alpha: float | None
    where: str
    where_alpha: str


def open_adapter(asked: Asked) -> Adapter:
    """Read headers and configuration of an adapter. UserError (exit 2 or 3) with all that is wrong."""
    path = _path(asked)
    here = Wanted(where_path=asked.where, where_files=asked.where, where_weights=asked.where)
    found = load(path, here)
    label = str(path)
    names = _own_names(found.checkpoint)
    raise_any(_empty(names, label))
    tensors = {name: found.checkpoint[name].tensor for name in names}
    raise_any(_sizeless(tensors, label))
    naming: Naming = "kohya" if is_kohya(names) else naming_of(names)
    keys = parse_kohya(names) if naming == "kohya" else parse_names(names, naming)
    raise_any(twice(keys, label))
    shared, parts = parts_of(keys, tensors)
    known = Known(parts, naming, found.metadata, asked.alpha, label, asked.where_alpha)
    settings, findings, files = _settings(found, known)
    raise_any(problem for one in settings.values() for problem in _unusable(one, label))
    raise_any(of_no_module(shared, next(iter(settings.values())), label))
    return Adapter(
        label=label,
        root=found.root,
        naming=naming,
        settings=next(iter(settings.values())),
        components=settings,
        parts=parts,
        shared=shared,
        files=(*(file.source for file in found.files), *files),
        weight=asked.weight,
        metadata=found.metadata,
        pickles=tuple(
            (file.source.name, file.contents.pickle) for file in found.files if file.contents.pickle
        ),
        findings=(
            *asked.location.findings,
            *_of_the_adapter(found.findings, label),
            *findings,
        ),
    )


def parts_of(
    keys: Mapping[str, Key], tensors: Mapping[str, LazyTensor]
) -> tuple[dict[str, LazyTensor], tuple[Part, ...]]:
    """What lies beside the modules, and every module's share; a recorded alpha is read."""
    shared: dict[str, LazyTensor] = {}
    parts = []
    for (component, module), names in by_module(keys).items():
        own = {parameter: tensors[name] for parameter, name in names.items()}
        if not module:
            shared.update(own)
            continue
        alpha = own.pop("alpha", None)
        value = (
            None if alpha is None else float(read_floats(alpha, full(alpha.extent)).reshape(-1)[0])
        )
        parts.append(Part(module, own, names, component, value))
    return shared, tuple(parts)


def _path(asked: Asked) -> Path:
    """Where it lies on this disk: whoever asks has fetched what lies on the Hub."""
    if asked.location.path is None:
        message = f"{asked.location} was not fetched"
        raise ValueError(message)
    return asked.location.path


def _own_names(names: Iterable[str]) -> list[str]:
    """Names of the adapter itself: copies of the base that PEFT keeps beside trained modules are none."""
    known = [name for name in names if ".original_module." not in name]
    return own_names(known) if holds_both(known) else known


def _empty(names: list[str], label: str) -> Iterator[Problem]:
    if names:
        return
    yield source_problem(
        "this adapter holds no tensors",
        why="it was saved before the shards of ZeRO-3 were gathered, or from another process",
        do="save it again with all shards gathered, or convert the training checkpoint",
        subject=label,
        check="lora",
    )


def _sizeless(tensors: Mapping[str, LazyTensor], label: str) -> Iterator[Problem]:
    empty = [name for name, tensor in tensors.items() if tensor.spec.elements == 0]
    if empty:
        yield source_problem(
            f"{len(empty)} of {len(tensors)} tensors hold no values: {listed(empty)}",
            why="they are placeholders of ZeRO-3: the shards were not gathered before saving",
            do="save it again with all shards gathered, or convert the training checkpoint",
            subject=label,
            check="lora",
        )


def _unusable(settings: Settings, label: str) -> Iterator[Problem]:
    yield from wrong_fields(settings, label)
    yield from unsafe_patterns(settings, label)


def _settings(
    found: Found, known: Known
) -> tuple[dict[str, Settings], tuple[Finding, ...], list[LocalFile]]:
    """By the part of a pipeline; `""` stands for all."""
    path = found.root / ADAPTER_CONFIG
    if path.is_file():
        settings, findings = read_settings(path)
        return {"": settings}, findings, [LocalFile.of(path, ADAPTER_CONFIG)]
    rebuilt, findings = rebuild_settings(known)
    return rebuilt, findings, []


def _of_the_adapter(findings: Iterable[Finding], label: str) -> Iterator[Finding]:
    for one in findings:
        yield Finding(
            level=one.level,
            check="lora",
            subject=f"{label}: {one.subject}" if one.subject else label,
            message=one.message,
            hint=one.hint,
        )
