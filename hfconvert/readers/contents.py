"""What a reader finds in one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hfconvert.errors import UserError
from hfconvert.findings import Finding
from hfconvert.pickles.values import Import
from hfconvert.readers.torch_found import Checksum
from hfconvert.tensors.lazy import LazyTensor, TensorSpec


@dataclass(frozen=True, slots=True)
class WeightSet:
    """One set of weights of a file: names without the set's own prefix, in the order of the file."""

    name: str
    tensors: Mapping[str, LazyTensor]

    @property
    def nbytes(self) -> int:
        """Bytes of all the tensors, as packed data."""
        return sum(tensor.spec.nbytes for tensor in self.tensors.values())


@dataclass(frozen=True, slots=True)
class OtherTensor:
    """A tensor that is no weight: of an optimizer, a scheduler, a random number generator."""

    name: str
    role: Literal["optimizer", "other"]
    spec: TensorSpec


@dataclass(frozen=True, slots=True)
class PickleFacts:
    """What the pickle of a file asks for; nothing of it is ever imported."""

    imports: tuple[Import, ...]
    stubbed: tuple[str, ...] = ()

    @property
    def dangerous(self) -> tuple[Import, ...]:
        """The imports that would run code under a loader that obeys them."""
        return tuple(item for item in self.imports if item.verdict == "dangerous")


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that a file holds: its sets of weights, and what was learned while reading it.

    `default` names the set that the format says is the model, or the only one; None where a choice is
    needed. `refusal` says why there are no sets where there are none.
    """

    format: str
    container: str
    sets: tuple[WeightSet, ...]
    default: str | None = None
    refusal: UserError | None = None
    others: tuple[OtherTensor, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    pickle: PickleFacts | None = None
    findings: tuple[Finding, ...] = ()
    checksums: tuple[Checksum, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)  # of the run that wrote it: `${args.x}`
    lazy: bool = True  # tensors can be read without loading the file
