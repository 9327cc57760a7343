"""YAML text as plain values with positions, read strictly.

Refused, all at once where reading can go on: duplicate keys, anchors, aliases, tags, merge keys, keys that
are not text, a second document, too much text, too deep nesting. Mappings come as `dict`, lists as `tuple`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from hfconvert.recipe.faults import Fault, shown
from hfconvert.recipe.positions import KeyPath, Mark, Positions, file_mark
from hfconvert.recipe.scalars import as_written, plain_scalar

MOST_CHARACTERS = 1 << 20
MOST_DEPTH = 32
MOST_EVENTS = 200_000

_ALIGN = "let keys of one mapping begin in one column, the same for items of a list; quote texts with `: `"
_QUOTE = 'put names and patterns with any of * & ! { } [ ] : # % @ in quotes: "*.bias"'

UNREAD = object()
"""Stands where a value could not be read: given, but unknown."""


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document: its value, where everything stands, what is wrong with it.

    `unread` are the paths whose values could not be read: nothing more is to be said about those.
    """

    name: str
    value: Any
    positions: Positions
    faults: tuple[Fault, ...] = ()
    unread: frozenset[KeyPath] = frozenset()


def compose(text: str, name: str) -> Document:
    """Read one document; never raises: what is wrong is in `faults`."""
    reading = _Reading(name)
    reading.positions.add((), file_mark(name, 1, 1), file_mark(name, 1, 1))
    if len(text) > MOST_CHARACTERS:
        reading.refuse(
            reading.positions.value(()),
            f"the file has more than {MOST_CHARACTERS} characters",
            why="a recipe is a page of text; this is probably another file",
            do="name the recipe",
        )
        return reading.document(None)
    try:
        value = reading.read(text)
    except _UnreadableError:
        value = None
    return reading.document(value)


class _UnreadableError(Exception):
    """Reading cannot go on; the fault is recorded."""


@dataclass(slots=True)
class _Reading:
    name: str
    positions: Positions = field(default_factory=Positions)
    faults: list[Fault] = field(default_factory=list)
    unread: set[KeyPath] = field(default_factory=set)
    loader: Any = None
    events: int = 0

    def document(self, value: object) -> Document:
        if value is None and self.faults:
            self.unread.add(())
            value = UNREAD
        return Document(
            self.name, value, self.positions, tuple(self.faults), frozenset(self.unread)
        )

    def read(self, text: str) -> object:
        try:
            self.loader = yaml.SafeLoader(text)
        except yaml.reader.ReaderError as error:
            before = text[: error.position]
            line = before.count("\n") + 1
            column = len(before) - (before.rfind("\n") + 1) + 1
            raise self.stop(
                file_mark(self.name, line, column),
                f"the character U+{ord(text[error.position]):04X} is not allowed in YAML",
                do="remove it",
            ) from None
        self.next()  # the stream starts
        if self.peeks(yaml.StreamEndEvent):
            return None
        self.next()  # the document starts
        value = self.node((), self.next())
        self.next()  # the document ends
        if not self.peeks(yaml.StreamEndEvent):
            self.refuse(
                self.mark(self.next()),
                "a second document begins here",
                why="a recipe is one YAML document",
                do="remove it, or put it into a file of its own",
            )
        return value

    def node(self, path: KeyPath, event: Any) -> object:
        mark = self.mark(event)
        if isinstance(event, yaml.AliasEvent):
            self.unread.add(path)
            self.refuse(
                mark,
                f"aliases are refused: {shown('*' + str(event.anchor))}",
                why="a name that begins with * and stands without quotes is a YAML alias",
                do=f'write "*{event.anchor}" in quotes, or the value itself once more',
            )
            return UNREAD
        self.refuse_marks(event, mark)
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event, mark)
        if len(path) >= MOST_DEPTH:
            raise self.stop(mark, f"nested more than {MOST_DEPTH} deep", do="flatten it")
        if isinstance(event, yaml.SequenceStartEvent):
            return self.items(path)
        return self.entries(path)

    def scalar(self, event: Any, mark: Mark) -> object:
        text: str = event.value
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            self.refuse(mark, "half of a surrogate pair is no character", do="remove it")
            text = text.encode("utf-8", "replace").decode()
        return plain_scalar(text) if event.implicit[0] else text

    def items(self, path: KeyPath) -> tuple[object, ...]:
        found: list[object] = []
        while not isinstance(event := self.next(), yaml.SequenceEndEvent):
            at = (*path, len(found))
            self.positions.add(at, self.mark(event), self.mark(event))
            found.append(self.node(at, event))
        return tuple(found)

    def entries(self, path: KeyPath) -> dict[str, object]:
        found: dict[str, object] = {}
        while not isinstance(event := self.next(), yaml.MappingEndEvent):
            key = self.key(path, event)
            if key is not None and key not in found:
                at, value = (*path, key), self.next()
                self.positions.add(at, self.mark(event), self.mark(value))
                found[key] = self.node(at, value)
            else:
                self.skip(path, self.next())
        return found

    def key(self, path: KeyPath, event: Any) -> str | None:
        """The key, or None when it was refused: then its value is skipped."""
        mark = self.mark(event)
        if not isinstance(event, yaml.ScalarEvent):
            self.refuse_key(path, event, mark)
            return None
        self.refuse_marks(event, mark)
        value = as_written(self.scalar(event, mark))
        if value == "<<" and event.implicit[0]:
            self.refuse(mark, "merge keys (`<<`) are refused", do="write the keys out")
            return None
        if not isinstance(value, str):
            what = f"{shown(event.value)} is not text" if event.value else "the key is missing"
            self.refuse(mark, what, why="every key is text", do="write the key in quotes")
            return None
        first = self.positions.keys.get((*path, value))
        if first is not None:
            self.refuse(
                mark,
                f"{shown(value)} stands here a second time",
                why=f"it was given at {first} already",
                do="keep one of the two",
            )
        return value

    def refuse_key(self, path: KeyPath, event: Any, mark: Mark) -> None:
        alias = isinstance(event, yaml.AliasEvent)
        self.refuse(
            mark,
            "an alias stands as a key" if alias else "a list or mapping stands as a key",
            why="a name that begins with * { or [ and stands without quotes is YAML syntax",
            do=_QUOTE,
        )
        if not alias:
            self.skip(path, event)

    def skip(self, path: KeyPath, event: Any) -> None:
        """Read a node and forget it; its own faults are kept."""
        kept, self.positions = self.positions, Positions(dict(self.positions.keys))
        unread = set(self.unread)
        self.node((*path, ""), event)
        self.positions, self.unread = kept, unread

    def refuse_marks(self, event: Any, mark: Mark) -> None:
        if event.anchor is not None:
            self.refuse(
                mark,
                f"anchors are refused: {shown('&' + str(event.anchor))}",
                why="aliases, which would use it, are refused too",
                do="remove it, or put the whole value in quotes",
            )
        if event.tag is not None:
            self.refuse(
                mark,
                f"tags are refused: {shown(event.tag)}",
                why="types are fixed by the recipe's fields",
                do="remove it, or put the whole value in quotes",
            )

    def refuse(self, mark: Mark, what: str, *, why: str = "", do: str) -> None:
        self.faults.append(Fault(mark, what, why, do))

    def stop(self, mark: Mark, what: str, *, why: str = "", do: str) -> _UnreadableError:
        self.refuse(mark, what, why=why, do=do)
        return _UnreadableError()

    def mark(self, event: Any) -> Mark:
        start = event.start_mark
        return file_mark(self.name, start.line + 1, start.column + 1)

    def peeks(self, kind: type[Any]) -> bool:
        return isinstance(self.event(self.loader.peek_event), kind)

    def next(self) -> Any:
        event = self.event(self.loader.get_event)
        self.events += 1
        if self.events > MOST_EVENTS:
            raise self.stop(
                self.mark(event),
                f"more than {MOST_EVENTS // 2} values",
                why="a recipe is a page of text; this is probably another file",
                do="name the recipe",
            )
        return event

    def event(self, get: Any) -> Any:
        try:
            return get()
        except yaml.MarkedYAMLError as error:
            raise self.syntax(error) from None
        except (ValueError, OverflowError):
            # PyYAML turns escapes and version numbers into characters and integers unchecked.
            at = self.loader.get_mark()
            mark = file_mark(self.name, at.line + 1, at.column + 1)
            raise self.stop(mark, "an escape or a number is out of range", do="mend it") from None

    def syntax(self, error: yaml.MarkedYAMLError) -> _UnreadableError:
        at = error.problem_mark or error.context_mark
        mark = file_mark(self.name, at.line + 1, at.column + 1) if at else Mark(0, 0, self.name)
        why, do = _cause(error)
        return self.stop(mark, f"not YAML: {error.problem or error.context}", why=why, do=do)


def _cause(error: yaml.MarkedYAMLError) -> tuple[str, str]:
    """Why YAML cannot be read, probably, and what to do."""
    problem, context = str(error.problem), str(error.context)
    if "\\t" in problem:
        return "a tab; YAML indents with spaces only", "put spaces in its place"
    if "got '{'" in problem:
        return "a { inside [ ] or { } begins a mapping, that of ${...} too", _QUOTE
    if "alias" in context or "alias" in problem:
        return "a name that begins with * and stands without quotes is a YAML alias", _QUOTE
    if "<block " in problem or "mapping values" in problem:
        return "the line is indented otherwise than those that it belongs to", _ALIGN
    return context if error.context else "indentation or quotes that do not fit", _QUOTE
