"""The report of a run: one frozen value, from which every form is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hfconvert.checks.result import Check
from hfconvert.findings import Finding
from hfconvert.planning.plan import Plan
from hfconvert.tensors.lazy import TensorSpec

Status = Literal["converted", "up-to-date", "planned", "skipped", "verified", "failed"]


@dataclass(frozen=True, slots=True)
class Output:
    """A file of the result."""

    file: str
    size: int
    sha256: str


class Opening(NamedTuple):
    """Seconds from opening the first file of weights to its first tensor: in the source, in the result."""

    before: float
    after: float


class Paired(NamedTuple):
    """A tensor of a candidate, and the one of the source that it was compared with."""

    name: str
    spec: TensorSpec
    origin: str
    before: TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run did, what it wrote, what was checked and found. `plan` is None where none came about.

    `source`, `candidate` and `pickles` are those of a verification, which has no plan; as the document holds
    them. `paired` are its tensors, for the page. `comment` is the one that brought it to a pull request.
    """

    status: Status
    plan: Plan | None
    output: str | None
    digest: str | None
    outputs: tuple[Output, ...] = ()
    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    versions: Mapping[str, str]
    seconds: float
    peak_memory_bytes: int
    publish: Mapping[str, Any] | None = None
    comment: Mapping[str, Any] | None = None
    opening: Opening | None = None
    source: Mapping[str, Any] | None = None
    candidate: Mapping[str, Any] | None = None
    pickles: Sequence[Mapping[str, Any]] = ()
    paired: Sequence[Paired] = ()
