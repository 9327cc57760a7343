"""What a pickle turns into: plain Python data, and these few inert stand-ins for everything else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from hfconvert.tensors.box import Shape
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.source import ByteSource

Verdict = Literal["inert", "unknown", "dangerous"]
TensorKind = Literal["dense", "sparse", "quantized", "meta", "nested", "wrapper"]


@dataclass(frozen=True, slots=True)
class Import:
    """A name that a pickle asks for, what it is judged to be, and how often it is asked for."""

    module: str
    name: str
    verdict: Verdict
    count: int

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, slots=True)
class Global:
    """A name that a pickle refers to, as a value. It is never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False, slots=True)
class Stub:
    """An object of a class that is not imported: how it was made, its state, what was put into it.

    `kind` is what was called: a Global, or any other value where the pickle calls that. Compared by
    identity, so that it can be a key.
    """

    kind: Any
    args: tuple[Any, ...] = ()
    kwargs: Any = None
    state: Any = None
    items: list[tuple[Any, Any]] | None = None
    appended: list[Any] | None = None

    @property
    def name(self) -> str:
        """Module and name of the class or function, or what stands in its place."""
        return str(self.kind) if type(self.kind) is Global else f"a {type(self.kind).__name__}"


class Table(dict[Any, Any]):
    """A dictionary of a known class (`kind`), with what the pickle sets as its attributes (`state`)."""

    __slots__ = ("kind", "state")

    def __init__(self, kind: str, entries: Any = ()) -> None:
        super().__init__(entries)
        self.kind = kind
        self.state: Any = None


@dataclass(eq=False, slots=True)
class Group:
    """Items of a set, frozenset, deque or the like, in the order of the pickle; nothing is hashed."""

    kind: str
    items: list[Any]


@dataclass(eq=False, slots=True)
class Plain:
    """A value of a small known class (`slice`, `Path`, `datetime`, ...), by its arguments and state."""

    kind: str
    args: tuple[Any, ...]
    state: Any = None


@dataclass(frozen=True, slots=True)
class Span:
    """A long run of bytes that is left where it lies in the source."""

    source: ByteSource
    start: int
    size: int


@dataclass(eq=False, slots=True)
class StorageRef:
    """The bytes that tensors are views of. `dtype` is None for untyped storages.

    Where the bytes lie is set by the container's reader; `fault` says why they cannot be had.
    """

    key: str
    dtype: DType | None
    nbytes: int
    location: str
    source: ByteSource | None = None
    start: int = 0
    swapped: bool = False
    fault: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class TensorRef:
    """A tensor as torch describes it: offset, shape and strides count elements of `dtype`.

    `parts` are the tensors that a sparse, quantised or nested tensor is made of, `detail` what describes it
    beyond them (layout, quantiser, state of a wrapper class). Nothing is checked yet.
    """

    kind: TensorKind
    dtype: DType | None
    shape: Shape
    strides: Shape = ()
    offset: int = 0
    storage: StorageRef | None = None
    requires_grad: bool = False
    conj: bool = False
    neg: bool = False
    parts: tuple[Any, ...] = ()
    detail: Any = None


@dataclass(eq=False, slots=True)
class ArrayType:
    """A numpy dtype: its code (`f4`) and byte order (`<`, `>`, `|`, `=`); `fields` of a record, if any."""

    code: str
    order: str = "<"
    fields: Any = None


@dataclass(eq=False, slots=True)
class ArrayRef:
    """A numpy array: `data` is its bytes, a Span of the source, or a list of objects."""

    shape: Shape = ()
    dtype: ArrayType | None = None
    fortran: bool = False
    data: Any = field(default=b"")
