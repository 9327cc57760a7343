"""Written files, opened afresh: what cannot be read is a fault that a check names, no error of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from hfconvert.errors import UserError
from hfconvert.tensors.header import Header, read_header
from hfconvert.tensors.source import LocalFile


class Held(NamedTuple):
    """A tensor of a file, as the safetensors library sees it."""

    code: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """A written file as it was found: its header by the strict parser of hfconvert, or why there is none, and
    its tensors by the safetensors library.

    `path` is None where it lies on this disk no more; `faults` were found of its ties while it did.
    """

    header: Header | str
    held: Mapping[str, Held]
    path: Path | None
    faults: tuple[str, ...] = ()


def open_written(path: Path, file: str) -> Written:
    """Open a file afresh; `file` is its final name, for messages."""
    return Written(header_of(path, file), held_by(path), path)


def header_of(path: Path, file: str) -> Header | str:
    """The header by the strict parser of hfconvert, or why there is none."""
    try:
        return read_header(LocalFile.of(path, file))
    except OSError as error:
        return f"{file} cannot be opened: {error.strerror or error}"
    except UserError as error:
        return str(error)


def held_by(path: Path) -> dict[str, Held]:
    """The tensors of a file by the safetensors library; none where it refuses the file."""
    try:
        with safe_open(str(path), framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            return {
                name: Held(part.get_dtype(), tuple(part.get_shape()))
                for name, part in slices.items()
            }
    except (OSError, SafetensorError):
        return {}
