"""The adapters of a merge, made ready to be published too: converted by a run of their own, and proved."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hfconvert.console import Console
from hfconvert.hub.target import Target
from hfconvert.hub.uploads import Proven
from hfconvert.making.converting import Asked, convert
from hfconvert.making.results import with_recorded_checks
from hfconvert.planning.plan import make_plan
from hfconvert.proving.models import Allowed
from hfconvert.recipe import Recipe, parse
from hfconvert.recipe.location import Location
from hfconvert.report.model import Report
from hfconvert.sourcing import fetch_source


@dataclass(frozen=True, slots=True)
class ProvenAdapter:
    """An adapter as safetensors, with its configuration, in a folder; `name` is what people call it."""

    name: str
    folder: Path
    report: Report


def adapter_names(recipe: Recipe) -> tuple[str, ...]:
    """What people call the adapters of a recipe: repositories, or the last part of a path."""
    return tuple(_name(one.location) for one in recipe.lora.adapters) if recipe.lora else ()


def prove_adapters(recipe: Recipe, place: Path, console: Console) -> tuple[ProvenAdapter, ...]:
    """Convert every adapter into a folder beside `place`. Errors as for a run of its own."""
    adapters = recipe.lora.adapters if recipe.lora else ()
    return tuple(
        _proven(one.location, place.with_name(f"{place.name}-adapter-{number}"), console)
        for number, one in enumerate(adapters, 1)
    )


def beside(target: Target, adapters: Sequence[ProvenAdapter]) -> Iterator[Proven]:
    """Their files within the repository of the merged model: in a folder, where no loader takes them for a
    part of it."""
    for adapter in adapters:
        folder = "adapter" if len(adapters) == 1 else f"adapters/{adapter.name.rpartition('/')[2]}"
        for one in adapter.report.outputs:
            path = target.place(f"{folder}/{one.file}")
            yield Proven(path, one.size, one.sha256, adapter.folder / one.file)


def _name(location: Location) -> str:
    return location.repo or (location.path or Path()).resolve().name


def _proven(location: Location, folder: Path, console: Console) -> ProvenAdapter:
    source: dict[str, Any] = {"path": str((location.path or Path()).resolve())}
    if location.repo is not None:
        source = {"repo": location.repo, "revision": location.revision or "main"}
    text = json.dumps({"version": 1, "source": source, "output": {"path": str(folder)}})
    sourced = fetch_source(parse(text, f"adapter {_name(location)}"))
    planned = make_plan(sourced.recipe, sourced.origin)
    asked = Asked(sourced.recipe, planned, folder, Allowed(), time.perf_counter())
    report = with_recorded_checks(convert(asked, console), folder)
    return ProvenAdapter(_name(location), folder, report)
