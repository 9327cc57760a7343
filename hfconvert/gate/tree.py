"""What the gate judges: the files of a folder or repository, looked at, and the weights in each folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hfconvert.errors import Problem, UserError, unreadable_problem
from hfconvert.inspect.folders import by_folder, placed
from hfconvert.inspect.listing import Listing, printable
from hfconvert.inspect.look import Seen, look
from hfconvert.inspect.roles import note_of
from hfconvert.readers.layout import Layout, find_layouts
from hfconvert.sourcing import look_at

if TYPE_CHECKING:
    from hfconvert.hub.source import Snapshot

SAFETENSORS = "safetensors"


@dataclass(frozen=True, slots=True)
class WeightSet:
    """Files of one folder that are weights together, by their places in the tree: one index, or one name."""

    folder: str
    layout: Layout
    files: tuple[Seen, ...]  # those that are there

    @property
    def places(self) -> tuple[str, ...]:
        """Where its files are, or have to be."""
        return tuple(placed(self.folder, file) for file in self.layout.files)

    @property
    def missing(self) -> tuple[str, ...]:
        """Files that its index or the numbers in its names promise, and that are not there."""
        here = {one.file.name for one in self.files}
        return tuple(place for place in self.places if place not in here)

    @property
    def label(self) -> str:
        """How messages call it."""
        return printable(placed(self.folder, self.layout.label))

    @property
    def is_safetensors(self) -> bool:
        """Whether every file of it is safetensors by its content, whatever its name."""
        formats = {one.contents.format for one in self.files if one.contents}
        return formats == {SAFETENSORS}

    @property
    def holds_weights(self) -> bool:
        """Whether there are tensors in it that are weights."""
        return any(one.contents is not None and one.contents.sets for one in self.files)


@dataclass(frozen=True, slots=True)
class Tree:
    """What is judged. `snapshot` is the repository that it is, at one commit, where it is one."""

    listing: Listing
    seen: Mapping[str, Seen]
    sets: tuple[WeightSet, ...]
    broken: tuple[Problem, ...]  # indexes that are none
    snapshot: Snapshot | None = None

    @property
    def root(self) -> Path:
        """The local folder with its small files, or with all of them where it is no repository."""
        return self.listing.root

    @property
    def safetensors(self) -> tuple[WeightSet, ...]:
        """The sets that are safetensors, in the order in which loaders prefer them."""
        return tuple(one for one in self.sets if one.is_safetensors)

    @property
    def pickled(self) -> tuple[WeightSet, ...]:
        """The sets that hold weights in pickles."""
        return tuple(one for one in self.sets if one.holds_weights and not one.is_safetensors)


def open_tree(what: str) -> Tree:
    """Look at every file of a folder, file or repository: headers and pickles, never a tensor.

    UserError where there is nothing to look at.
    """
    looked_at = look_at(what)
    listing = looked_at.listing
    layouts, broken = _layouts(listing)
    weights = {placed(folder, file) for folder, layout in layouts for file in layout.files}
    seen = {
        file.name: look(
            file.apart(), is_weights=listing.alone or file.name in weights, alone=listing.alone
        )
        for file in listing.files
    }
    layouts += [_alone(name) for name in seen if name not in weights and _is_set(seen[name])]
    return Tree(listing, seen, tuple(_sets(layouts, seen)), tuple(broken), looked_at.snapshot)


def _layouts(listing: Listing) -> tuple[list[tuple[str, Layout]], list[Problem]]:
    found: list[tuple[str, Layout]] = []
    problems: list[Problem] = []
    for folder, names in by_folder(listing.names).items():
        try:
            found += [(folder, layout) for layout in find_layouts(listing.root / folder, names)]
        except UserError as error:
            problems += error.problems
        except OSError as error:
            problems.append(unreadable_problem(listing.root / folder, error))
    return found, problems


def _alone(place: str) -> tuple[str, Layout]:
    """Weights under a name that no loader looks for."""
    folder, _, name = place.rpartition("/")
    return folder, Layout(Path(name).stem, "torch", (name,))


def _is_set(one: Seen) -> bool:
    """Whether a file holds weights though its name is none of weights. State of a training run is none."""
    return one.contents is not None and bool(one.contents.sets) and not note_of(one.file.name)


def _sets(layouts: list[tuple[str, Layout]], seen: Mapping[str, Seen]) -> Iterator[WeightSet]:
    for folder, layout in layouts:
        files = (seen.get(placed(folder, file)) for file in layout.files)
        yield WeightSet(folder, layout, tuple(one for one in files if one is not None))
