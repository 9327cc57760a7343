"""Hold the bytes of a zip's storages against the checksums that its directory records.

torch itself does not look at them when it loads: a flipped bit passes as another value.
"""

from __future__ import annotations

from collections.abc import Iterable

from hfconvert.errors import Problem, source_problem
from hfconvert.readers.torch_found import Checksum
from hfconvert.readers.torch_zip_file import crc_of


def flipped(checksums: Iterable[Checksum]) -> list[Problem]:
    """A problem (exit 3) for every storage whose bytes are not those that were written. Reads all of them."""
    return [
        source_problem(
            f"the checksum of {checksum.name!r} is wrong",
            why="some of its bits were flipped on disk or on the way",
            do="fetch the file again",
            subject=checksum.source.name,
        )
        for checksum in checksums
        if crc_of(checksum.source, checksum.start, checksum.size) != checksum.crc
    ]
