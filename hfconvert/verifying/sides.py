"""The two sides of a verification, opened: what the source is or a recipe plans of it, and the candidate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hfconvert.checks.side_files import Expected
from hfconvert.findings import Finding
from hfconvert.keymap.applied import Applied
from hfconvert.planning.decide import Tie, decide
from hfconvert.planning.plan import Plan, make_plan
from hfconvert.readers.assets import gather
from hfconvert.readers.config import CONFIG, read_config
from hfconvert.readers.load import Found, Wanted, load
from hfconvert.readers.origin import Origin
from hfconvert.recipe import Location, Recipe
from hfconvert.report.pickles import pickle_documents
from hfconvert.sourcing import Place, fetch_location, fetch_source
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.source import SourceFile

_AS_IT_IS = Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two: its tensors under all their names, which of those are ties, and its side files.

    `plan` is what a recipe makes of a source, where there is one: the tensors are then those of the plan.
    """

    path: Path
    origin: Origin | None
    format: str
    weights: tuple[SourceFile, ...]
    tensors: Mapping[str, LazyTensor]
    ties: tuple[Tie, ...]
    config: Mapping[str, Any] | None
    files: Expected
    pickles: tuple[Mapping[str, Any], ...] = ()
    findings: tuple[Finding, ...] = ()
    plan: Plan | None = None
    recipe: Recipe | None = None  # that of the plan, all that it names being at hand

    @property
    def is_folder(self) -> bool:
        """Whether the side is a folder, which has side files, or one file."""
        return self.path.is_dir()

    @property
    def stored(self) -> dict[str, LazyTensor]:
        """The tensors without those names that are only ties."""
        tied = {tie.dropped for tie in self.ties}
        return {name: one for name, one in self.tensors.items() if name not in tied}

    def document(self) -> dict[str, Any]:
        """The side as a report names it."""
        return {
            "repo": self.origin.repo if self.origin else None,
            "commit": self.origin.commit if self.origin else None,
            "path": None if self.origin else str(self.path),
            "format": self.format,
            "files": [{"file": file.name, "size": file.size} for file in self.weights],
        }


def open_source(location: Location, recipe: Recipe | None) -> Side:
    """The source as it is, or what the recipe makes of it. UserError where it cannot be read."""
    if recipe is None:
        return open_found(fetch_location(location))
    kept = recipe.source.revision if location.repo == recipe.source.repo else "main"
    source = {"path": location.path, "repo": location.repo, "revision": location.revision or kept}
    at = recipe.model_copy(update={"source": recipe.source.model_copy(update=source)})
    fetched = fetch_source(at)
    return replace(_planned(make_plan(fetched.recipe, fetched.origin)), recipe=fetched.recipe)


def open_found(place: Place, wanted: Wanted = _AS_IT_IS) -> Side:
    """A folder or file as it is. UserError where there is nothing, or nothing that can be read."""
    path = place.path
    found = load(path, wanted)
    config = read_config(found.root)
    decided = decide(Applied(found.checkpoint), config)
    assets = gather(found.root, [one.source.name for one in found.files], alone=path.is_file())
    return Side(
        path=path,
        origin=place.origin,
        format=found.format,
        weights=tuple(file.source for file in found.files),
        tensors={name: entry.tensor for name, entry in found.checkpoint.items()},
        ties=decided.ties,
        config=config,
        files=Expected({file.name: file for file in assets.copied}, {}),
        pickles=tuple(_pickles(found)),
        findings=found.findings,
    )


def _planned(plan: Plan) -> Side:
    """What a plan makes: its tensors, ties and side files."""
    tensors = {
        placed.name: placed.entry.tensor for shard in plan.shards for placed in shard.tensors
    }
    tensors |= {tie.dropped: tensors[tie.kept] for tie in plan.ties if tie.kept in tensors}
    return Side(
        path=Path(plan.path),
        origin=plan.origin,
        format=plan.format,
        weights=plan.sources,
        tensors=tensors,
        ties=plan.ties,
        config=None,
        files=Expected(
            {file.name: file for file in plan.copies},
            {one.source.name: one.content for one in plan.rewritten}
            | {text.file: text.content for text in plan.texts if text.file == CONFIG},
        ),
        pickles=tuple(pickle_documents(plan.pickles)),
        findings=plan.findings,
        plan=plan,
    )


def _pickles(found: Found) -> Iterable[dict[str, Any]]:
    facts = [(file.source.name, file.contents.pickle) for file in found.files]
    return pickle_documents((name, pickle) for name, pickle in facts if pickle)
