"""Archives and compressed files around checkpoints: gzip, bzip2, xz, zstd, tar and zip.

What must be unpacked goes to a temporary file, within bounds; no name that an archive gives is ever written.
"""

from __future__ import annotations

import bz2
import importlib
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from hfconvert.errors import Problem, UserError
from hfconvert.findings import Finding, info, warning
from hfconvert.pickles.values import Table
from hfconvert.readers.state_dict import weight_sets
from hfconvert.readers.torch_found import TorchFile, refused
from hfconvert.readers.torch_sniff import HEAD
from hfconvert.readers.torch_sources import Section, Spool, chunks, unpack_limit
from hfconvert.readers.torch_tar import is_tar
from hfconvert.tensors.source import ByteSource, read

MAX_CHECKPOINTS = 16
_BLOCK = 1 << 20

Read = Callable[[ByteSource], TorchFile]


def packing(head: bytes) -> str | None:
    """The compression that the first bytes speak of, or None."""
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    return None


def read_packed(source: ByteSource, kind: str, read_inner: Read) -> TorchFile:
    """Unpack a compressed file to disk and read what was in it. UserError (exit 3, 5)."""
    spool = Spool.of(source.name, _unpacked(source, kind), source, unpack_limit(source.size))
    told = info(
        "source", source.name, f"{kind} was around it; {spool.size} bytes were unpacked to disk"
    )
    return replace(_around(kind, read_inner(spool), told), packed=True)


def read_archive(
    source: ByteSource, kind: str, members: Mapping[str, ByteSource], read_inner: Read
) -> TorchFile:
    """Read the checkpoints in an archive. UserError (exit 3) where there are none, or one is broken."""
    names = [name for name, member in members.items() if _promises(member)]
    if not names:
        listed = ", ".join(list(members)[:5]) or "nothing"
        raise refused(
            source,
            f"it is a {kind} archive without a checkpoint; it has {listed}",
            why="it is an archive of something else",
            do="name the checkpoint itself",
        )
    if len(names) > MAX_CHECKPOINTS:
        raise refused(
            source,
            f"it is a {kind} archive of {len(names)} checkpoints",
            why="at most a few belong to one model",
            do="unpack it and name the one to convert",
        )
    found = _read_all({name: members[name] for name in names}, read_inner)
    return _chosen(source, kind, found)


def _chosen(source: ByteSource, kind: str, found: Mapping[str, TorchFile]) -> TorchFile:
    """The one member that has weights; all of them where that is not one."""
    full = [name for name, file in found.items() if weight_sets(file.tree)]
    if len(full) == 1:
        told = info("source", source.name, f"{full[0]} of the {kind} archive is read")
        chosen = _around(kind, found[full[0]], told)
        rest = [file for name, file in found.items() if name != full[0]]
        imports = chosen.imports + tuple(item for file in rest for item in file.imports)
        return replace(chosen, imports=imports)
    told = warning("source", source.name, f"the {kind} archive holds {', '.join(found)}")
    return TorchFile(
        f"{kind} of {next(iter(found.values())).container}",
        Table("archive", {name: file.tree for name, file in found.items()}),
        tuple(item for file in found.values() for item in file.imports),
        tuple(dict.fromkeys(name for file in found.values() for name in file.stubbed)),
        (told, *(finding for file in found.values() for finding in file.findings)),
        tuple(item for file in found.values() for item in file.checksums),
        any(file.packed for file in found.values()),
    )


def _read_all(members: Mapping[str, ByteSource], read_inner: Read) -> dict[str, TorchFile]:
    found: dict[str, TorchFile] = {}
    problems: list[Problem] = []
    for name, member in members.items():
        try:
            file = read_inner(member)
            found[name] = replace(file, packed=file.packed or not isinstance(member, Section))
        except UserError as error:
            problems += error.problems
    if problems:
        raise UserError(*problems)
    return found


def _around(kind: str, file: TorchFile, told: Finding) -> TorchFile:
    container = f"{kind} of {file.container}"
    return replace(file, container=container, findings=(told, *file.findings))


def _promises(member: ByteSource) -> bool:
    """Whether the first bytes of a member are those of a checkpoint or another archive."""
    head = bytes(read(member, 0, min(HEAD, member.size)))
    pickled = len(head) > 2 and head[0] == 0x80 and head[1] in range(2, 6)
    named = head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= member.size
    return (
        pickled or named or head[:4] == b"PK\x03\x04" or packing(head) is not None or is_tar(head)
    )


def _unpacked(source: ByteSource, kind: str) -> Iterator[bytes]:
    try:
        yield from _streams(source, _ENGINES[kind])
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, _zstd_error()) as error:
        raise refused(source, f"its {kind} data is damaged or cut off: {error}") from None
    except ImportError:
        raise refused(
            source,
            f"it is compressed with {kind}, for which Python has no module here",
            why="zstd came to Python with 3.14",
            do="pip install backports.zstd, or unpack it first",
        ) from None


def _streams(source: ByteSource, make: Callable[[], Any]) -> Iterator[bytes]:
    """Unpack streams that follow each other, in blocks of bounded size; zeros may follow the last."""
    engine = make()
    for chunk in chunks(source, 0, source.size):
        data = chunk
        while data:
            if engine.eof:
                if not data.strip(b"\0"):
                    break
                engine = make()
            yield engine.decompress(data, _BLOCK)
            yield from _pending(engine)
            data = getattr(engine, "unconsumed_tail", b"") or engine.unused_data
    while not engine.eof:
        block = engine.decompress(b"", _BLOCK)
        if not block:
            raise EOFError("it ends in the middle")
        yield block


def _pending(engine: Any) -> Iterator[bytes]:
    """What bz2, lzma and zstd keep back when a block was full; zlib keeps its input instead."""
    while not engine.eof and not getattr(engine, "needs_input", True):
        yield engine.decompress(b"", _BLOCK)


def _zstd() -> Any:
    """The zstd module of Python 3.14, or its backport. ImportError where there is neither."""
    try:
        return importlib.import_module("compression.zstd")
    except ImportError:
        return importlib.import_module("backports.zstd")


def _zstd_error() -> type[Exception]:
    try:
        error: type[Exception] = _zstd().ZstdError
    except ImportError:
        return EOFError
    return error


_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x5d\0\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_ENGINES: Mapping[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=256 << 20),
    "zstd": lambda: _zstd().ZstdDecompressor(),
}
