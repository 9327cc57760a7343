"""Where each value of a recipe stands, so that every problem can point at it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place: `text` is what messages show, `line` and `column` (from 1) order it.

    Places on the command line have line 0, and so come before those of the file.
    """

    line: int
    column: int
    text: str

    def __str__(self) -> str:
        return self.text


def file_mark(name: str, line: int, column: int) -> Mark:
    """A place in a file, shown as `recipe.yaml:12:7`."""
    return Mark(line, column, f"{name}:{line}:{column}")


@dataclass(frozen=True, slots=True)
class Positions:
    """The marks of keys and of values, by path from the top.

    Items of a list have no key; their key mark is their value mark. The path `()` is always known.
    """

    keys: dict[KeyPath, Mark] = field(default_factory=dict)
    values: dict[KeyPath, Mark] = field(default_factory=dict)

    def add(self, path: KeyPath, key: Mark, value: Mark) -> None:
        """Record a path; only while a document is put together."""
        self.keys[path] = key
        self.values[path] = value

    def present(self, location: Iterable[str | int]) -> KeyPath:
        """The path that the document holds, without the parts that it lacks.

        pydantic puts names of union members into its locations, and keys that are missing.
        """
        path: KeyPath = ()
        for part in location:
            if (*path, part) in self.values:
                path = (*path, part)
        return path

    def key(self, path: KeyPath) -> Mark:
        """Where the key stands, or that of the nearest ancestor that exists."""
        return self.keys[_nearest(path, self.keys)]

    def value(self, path: KeyPath) -> Mark:
        """Where the value begins, or that of the nearest ancestor that exists."""
        return self.values[_nearest(path, self.values)]

    def without(self, path: KeyPath) -> Positions:
        """All but those at and below a path."""
        depth = len(path)
        return Positions(
            {at: mark for at, mark in self.keys.items() if at[:depth] != path},
            {at: mark for at, mark in self.values.items() if at[:depth] != path},
        )

    def below(self, path: KeyPath) -> Positions:
        """Those at and below a path, as paths from there."""
        depth = len(path)
        return Positions(
            {at[depth:]: mark for at, mark in self.keys.items() if at[:depth] == path},
            {at[depth:]: mark for at, mark in self.values.items() if at[:depth] == path},
        )


def _nearest(path: KeyPath, known: dict[KeyPath, Mark]) -> KeyPath:
    while path and path not in known:
        path = path[:-1]
    return path
