"""A checkpoint: a mapping from names to lazy tensors. Every step is a function from one to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from hfconvert.tensors.lazy import LazyTensor


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor under its present name: the names of the source tensors it comes from, the steps it took."""

    tensor: LazyTensor
    sources: tuple[str, ...]
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dropped:
    """A source tensor, or a part of one, that a rule of the recipe (or by default, named) left out."""

    name: str
    rule: str
    tensor: LazyTensor | None = field(default=None, compare=False, repr=False)  # the part that went


@dataclass(frozen=True, slots=True)
class Checkpoint(Mapping[str, Entry]):
    """Names to tensors, in the order of the source; and what was dropped on the way."""

    entries: Mapping[str, Entry]
    dropped: tuple[Dropped, ...] = field(default=())

    def __getitem__(self, name: str) -> Entry:
        return self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def with_entries(self, entries: Mapping[str, Entry], *dropped: Dropped) -> Checkpoint:
        """The next checkpoint: other entries, and these dropped beside those dropped before."""
        return replace(self, entries=entries, dropped=(*self.dropped, *dropped))


def found(tensors: Mapping[str, LazyTensor]) -> Checkpoint:
    """The checkpoint that a reader found: every tensor under its own name, with no step taken."""
    return Checkpoint({name: Entry(tensor, (name,)) for name, tensor in tensors.items()})
