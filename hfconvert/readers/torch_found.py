"""What the readers of PyTorch files give, and the words they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hfconvert.errors import Problem, UserError, source_problem
from hfconvert.findings import Finding
from hfconvert.pickles.machine import BrokenPickleError, Unpickler
from hfconvert.pickles.values import Import
from hfconvert.tensors.source import ByteSource


@dataclass(frozen=True, slots=True)
class Checksum:
    """What a zip says of the bytes of one of its entries: their CRC-32."""

    name: str
    source: ByteSource
    start: int
    size: int
    crc: int


@dataclass(frozen=True, slots=True)
class TorchFile:
    """What a file holds: `tree` is plain data and inert stand-ins, its tensors still in the source.

    `container` is `zip`, `torchscript`, `package`, `legacy`, `tar`, `pickle`, `safetensors` or `archive`,
    with what was around it in front, such as `gzip of legacy`. `packed` says that some of its tensors have to
    be unpacked before they can be read.
    """

    container: str
    tree: Any
    imports: tuple[Import, ...] = ()
    stubbed: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    checksums: tuple[Checksum, ...] = ()
    packed: bool = False


class BrokenFileError(UserError):
    """A file whose pickle cannot be read to its end; `imports` are what it asked for up to there."""

    def __init__(self, *problems: Problem, imports: tuple[Import, ...]) -> None:
        super().__init__(*problems)
        self.imports = imports


def refused(source: ByteSource, what: str, *, why: str = "", do: str = "") -> UserError:
    """A file that cannot be read (exit 3)."""
    return UserError(
        source_problem(
            what,
            why=why or "the file is damaged, incomplete, or made to mislead",
            do=do or "fetch or write it again",
            subject=source.name,
        )
    )


def broken(source: ByteSource, error: BrokenPickleError, unpickler: Unpickler) -> BrokenFileError:
    """A pickle that cannot be read to its end; dangerous names that it asked for before are told."""
    names = [str(item) for item in unpickler.imports if item.verdict == "dangerous"]
    told = f"; up to there it asks for {', '.join(names)}" if names else ""
    why = refused(source, f"its pickle is broken: {error}{told}")
    return BrokenFileError(*why.problems, imports=unpickler.imports)
