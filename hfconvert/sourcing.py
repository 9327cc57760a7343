"""Where a recipe's source comes from: a path stays one, a repository becomes a local folder at one commit."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hfconvert.inspect.listing import Listing, list_files
from hfconvert.readers.origin import Origin

if TYPE_CHECKING:
    from hfconvert.findings import Finding
    from hfconvert.hub.checkout import Asked
    from hfconvert.hub.source import Snapshot
    from hfconvert.recipe import Location, Recipe
    from hfconvert.recipe.source import Source


@dataclass(frozen=True, slots=True)
class Sourced:
    """A recipe whose source is a path, and the repository that it stands for, if any."""

    recipe: Recipe
    origin: Origin | None = None
    snapshot: Snapshot | None = None

    def pinned(self, recipe: Recipe) -> Recipe:
        """The recipe, its repository at the commit that was looked at."""
        if self.snapshot is None:
            return recipe
        at = {"revision": self.snapshot.commit}
        return recipe.model_copy(update={"source": recipe.source.model_copy(update=at)})


def fetch_source(recipe: Recipe) -> Sourced:
    """Everything that is read or copied on local disk, each file as the Hub records it. UserError."""
    recipe = _with_others(recipe, _whole)
    if recipe.source.repo is None:
        return Sourced(recipe)
    from hfconvert.hub.checkout import check_out  # noqa: PLC0415 - huggingface_hub, where it is needed
    from hfconvert.hub.earlier_config import with_earlier_config  # noqa: PLC0415

    snapshot = _snapshot(recipe.source)
    checkout = with_earlier_config(snapshot, check_out(snapshot, _asked(recipe)))
    return Sourced(_at(recipe, checkout.root), checkout.origin, snapshot)


def look_at_source(recipe: Recipe) -> Sourced:
    """Small files on local disk, weights to be read by ranges: enough for a plan. UserError."""
    recipe = _with_others(recipe, _by_ranges)
    if recipe.source.repo is None:
        return Sourced(recipe)
    from hfconvert.hub.checkout import look_into  # noqa: PLC0415 - huggingface_hub, where it is needed
    from hfconvert.hub.earlier_config import with_earlier_config  # noqa: PLC0415

    snapshot = _snapshot(recipe.source)
    checkout = with_earlier_config(snapshot, look_into(snapshot, _asked(recipe)))
    return Sourced(_at(recipe, checkout.root), checkout.origin, snapshot)


def _with_others(recipe: Recipe, reference: Callable[[Location], Location]) -> Recipe:
    """The recipe, with what it names beside its source looked at too: adapters, assets, the reference."""
    recipe = _with_adapters(recipe)
    assets, compared = recipe.source.assets_from, recipe.validation.reference
    if assets is not None and assets.local is None:
        at = {"assets_from": _assets(assets)}
        recipe = recipe.model_copy(update={"source": recipe.source.model_copy(update=at)})
    if compared is not None and compared.local is None:
        at = {"reference": reference(compared)}
        recipe = recipe.model_copy(update={"validation": recipe.validation.model_copy(update=at)})
    return recipe


def _assets(location: Location) -> Location:
    from hfconvert.hub.checkout import side_folder  # noqa: PLC0415 - huggingface_hub

    snapshot = _snapshot(location)
    return replace(location, revision=snapshot.commit, here=side_folder(snapshot))


def _whole(location: Location) -> Location:
    from hfconvert.hub.checkout import Asked, check_out  # noqa: PLC0415 - huggingface_hub

    snapshot = _snapshot(location)
    root = check_out(snapshot, Asked(where="validate.reference")).root
    return replace(location, revision=snapshot.commit, here=root)


def _by_ranges(location: Location) -> Location:
    from hfconvert.hub.checkout import Asked, look_into  # noqa: PLC0415 - huggingface_hub

    snapshot = _snapshot(location)
    checkout = look_into(snapshot, Asked(where="validate.reference"))
    remote = checkout.origin.remote
    return replace(location, revision=snapshot.commit, here=checkout.root, remote=remote)


def _with_adapters(recipe: Recipe) -> Recipe:
    """Adapters of repositories as paths, fetched whole: they are small, and a plan matches their names."""
    lora = recipe.lora
    if lora is None or all(one.location.path is not None for one in lora.adapters):
        return recipe
    here = [fetch_location(one.location) for one in lora.adapters]
    adapters = tuple(
        one.model_copy(
            update={
                "adapter": replace(
                    one.location,
                    path=place.path,
                    repo=None,
                    revision=None,
                    findings=place.findings,
                )
            }
        )
        for one, place in zip(lora.adapters, here, strict=True)
    )
    return recipe.model_copy(update={"lora": lora.model_copy(update={"adapters": adapters})})


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or file on local disk, and the repository that it stands for, if any."""

    path: Path
    origin: Origin | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was noticed when it was fetched."""
        return self.origin.findings if self.origin else ()


def fetch_location(location: Location) -> Place:
    """What a location names, on local disk: a path as it is, a repository fetched and verified. UserError."""
    if location.path is not None:
        return Place(location.path)
    from hfconvert.hub.checkout import Asked, check_out  # noqa: PLC0415 - huggingface_hub
    from hfconvert.hub.earlier_config import with_earlier_config  # noqa: PLC0415

    snapshot = _snapshot(location)
    checkout = with_earlier_config(snapshot, check_out(snapshot, Asked()))
    return Place(checkout.root, checkout.origin)


@dataclass(frozen=True, slots=True)
class LookedAt:
    """The files of a folder, file or repository, and the commit that they are of where it is one."""

    listing: Listing
    snapshot: Snapshot | None = None


def look_at(what: str) -> LookedAt:
    """The files of a folder, file or repository, as `inspect` looks at them. UserError."""
    if is_path(what):
        return LookedAt(list_files(Path(what)))
    from hfconvert.hub.checkout import list_repository  # noqa: PLC0415 - huggingface_hub
    from hfconvert.recipe import parse_location  # noqa: PLC0415 - pydantic, where it is needed

    location = parse_location(what, subject="WHAT")
    snapshot = _snapshot(location)
    return LookedAt(Listing(*list_repository(snapshot)), snapshot)


def is_path(what: str) -> bool:
    """Whether WHAT is a path, there or misspelt: it is no `org/name`, with or without a revision."""
    repo = what.partition("@")[0]
    there = os.path.exists(what)  # noqa: PTH110 - that of Path raises where it may not look
    return there or what[:1] in "./" or repo.count("/") != 1


def list_what(what: str) -> Listing:
    """The files alone, as `look_at` lists them. UserError."""
    return look_at(what).listing


def _snapshot(place: Location | Source) -> Snapshot:
    """The repository that is named, at the commit that its revision means now. UserError."""
    from hfconvert.hub.client import connect  # noqa: PLC0415 - huggingface_hub, where it is needed
    from hfconvert.hub.source import pin  # noqa: PLC0415

    return pin(connect(), place.repo or "", place.revision)


def _asked(recipe: Recipe) -> Asked:
    from hfconvert.hub.checkout import Asked  # noqa: PLC0415 - huggingface_hub, where it is needed

    source = recipe.source
    return Asked(
        subfolder=source.subfolder,
        files=source.files,
        ranks=source.ranks,
        where=recipe.position("source", "files"),
    )


def _at(recipe: Recipe, root: Path) -> Recipe:
    source = recipe.source.model_copy(update={"path": root, "repo": None})
    return recipe.model_copy(update={"source": source})
