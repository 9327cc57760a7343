"""Rebuilders for the standard library: small data classes, by exact module and name.

Each takes the arguments that the pickle gives and returns plain data or an inert stand-in; where the
arguments do not fit it raises, and a Stub takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from hfconvert.pickles.keys import hashable
from hfconvert.pickles.values import Global, Group, Plain, Span, Stub, Table

_Dict = TypeVar("_Dict", bound=dict[Any, Any])
_BUILTINS = ("builtins", "__builtin__")
_CODECS = {"latin1", "latin-1", "iso-8859-1", "utf-8", "utf8", "ascii"}
_PLAIN = (
    *(("builtins", name) for name in ("slice", "range", "object", "BaseException", "Exception")),
    *(("__builtin__", name) for name in ("slice", "xrange", "object")),
    *(
        ("pathlib", name)
        for name in (
            "Path",
            "PosixPath",
            "WindowsPath",
            "PurePath",
            "PurePosixPath",
            "PureWindowsPath",
        )
    ),
    *(
        ("pathlib._local", name)
        for name in (
            "Path",
            "PosixPath",
            "WindowsPath",
            "PurePath",
            "PurePosixPath",
            "PureWindowsPath",
        )
    ),
    *(("datetime", name) for name in ("datetime", "date", "time", "timedelta", "timezone")),
    ("uuid", "UUID"),
    ("decimal", "Decimal"),
    ("fractions", "Fraction"),
    ("functools", "partial"),
    ("io", "BytesIO"),
    ("_io", "BytesIO"),
    ("io", "StringIO"),
    ("_io", "StringIO"),
    ("argparse", "Namespace"),
    ("types", "SimpleNamespace"),
)


def ordered_dict(args: tuple[Any, ...]) -> Table:
    """`OrderedDict()`, or with a list of pairs as Python 2 writes it."""
    return _filled(Table("OrderedDict"), args[0] if args else ())


def default_dict(args: tuple[Any, ...]) -> Table:
    """`defaultdict(factory)`; the factory is let go."""
    return _filled(Table("defaultdict"), args[1] if len(args) > 1 else ())


def counter(args: tuple[Any, ...]) -> Table:
    """`Counter(dict)`."""
    return _filled(Table("Counter"), args[0] if args else ())


def plain_dict(args: tuple[Any, ...]) -> dict[Any, Any]:
    """`dict()` with pairs or a dictionary."""
    made: dict[Any, Any] = {}
    return _filled(made, args[0] if args else ())


def group(kind: str) -> Callable[[tuple[Any, ...]], Group]:
    """A rebuilder of sets, frozensets and deques."""

    def rebuild(args: tuple[Any, ...]) -> Group:
        return Group(kind, _items(args[0]) if args else [])

    return rebuild


def plain_list(args: tuple[Any, ...]) -> list[Any]:
    """`list()` of a sequence."""
    return _items(args[0]) if args else []


def plain_tuple(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """`tuple()` of a sequence."""
    return tuple(_items(args[0])) if args else ()


def encode(args: tuple[Any, ...]) -> bytes:
    """`_codecs.encode(text, encoding)`: how bytes are pickled by protocols below 3."""
    text, encoding = args[0], args[1] if len(args) > 1 else "utf-8"
    if type(text) is not str or type(encoding) is not str or encoding.lower() not in _CODECS:
        raise ValueError(encoding)
    return text.encode(encoding)


def byte_array(args: tuple[Any, ...]) -> bytes | Span:
    """`bytearray` and `bytes` of bytes, or of text and an encoding; never of a size."""
    if not args:
        return b""
    if len(args) == 1 and isinstance(args[0], (bytes, Span)):
        return args[0]
    return encode(args)


def complex_number(args: tuple[Any, ...]) -> complex:
    """`complex(real, imaginary)`."""
    real, imaginary = args
    if not isinstance(real, (int, float)) or not isinstance(imaginary, (int, float)):
        raise TypeError(args)
    return complex(real, imaginary)


def plain(kind: str) -> Callable[[tuple[Any, ...]], Plain]:
    """A rebuilder of small classes that are kept as their arguments and state."""

    def rebuild(args: tuple[Any, ...]) -> Plain:
        return Plain(kind, args)

    return rebuild


def reconstructor(args: tuple[Any, ...]) -> Any:
    """`copyreg._reconstructor(class, base, state)`: how protocols 0 and 1 make objects."""
    kind, _, state = args
    known = _TABLE.get(kind) if type(kind) is Global else None
    return Stub(kind, state=state) if known is None else known(() if state is None else (state,))


def _filled(target: _Dict, source: Any) -> _Dict:
    """The dictionary with the items of another, or with a list of pairs."""
    if isinstance(source, dict):
        target.update(source)
        return target
    for key, value in source if type(source) in (list, tuple) else _raise(source):
        target[hashable(key)] = value
    return target


def _raise(source: Any) -> NoReturn:
    raise TypeError(type(source))


def _items(source: Any) -> list[Any]:
    if isinstance(source, Group):
        return source.items
    if type(source) not in (list, tuple):
        raise TypeError(type(source))
    return list(source)


_TABLE: Mapping[Global, Callable[[tuple[Any, ...]], Any]] = {
    Global("collections", "OrderedDict"): ordered_dict,
    Global("collections", "defaultdict"): default_dict,
    Global("collections", "Counter"): counter,
    Global("collections", "deque"): group("deque"),
    Global("_codecs", "encode"): encode,
    **{Global(module, "set"): group("set") for module in _BUILTINS},
    **{Global(module, "frozenset"): group("frozenset") for module in _BUILTINS},
    **{Global(module, "list"): plain_list for module in _BUILTINS},
    **{Global(module, "tuple"): plain_tuple for module in _BUILTINS},
    **{Global(module, "dict"): plain_dict for module in _BUILTINS},
    **{Global(module, "bytearray"): byte_array for module in _BUILTINS},
    **{Global(module, "bytes"): byte_array for module in _BUILTINS},
    **{Global(module, "complex"): complex_number for module in _BUILTINS},
    **{Global(module, name): plain(f"{module}.{name}") for module, name in _PLAIN},
}

REBUILDS: Mapping[Global, Callable[[tuple[Any, ...]], Any]] = {
    **_TABLE,
    Global("copyreg", "_reconstructor"): reconstructor,
    Global("copy_reg", "_reconstructor"): reconstructor,
}
