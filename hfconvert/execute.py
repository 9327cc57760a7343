"""Make the shards of a plan, one after the other, a block at a time.

Two workers read blocks, hash them in turn while they are in the processor's cache, and write them at their
planned places: always the same bytes. A shard is handed on under a temporary name; when the caller asks
for the next one it has accepted this one, which is then synced to disk and takes its name.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hfconvert.hashing import OrderedHash
from hfconvert.shards import BLOCK, WORKERS, Placed, Shard
from hfconvert.tensors.box import Box, blocks, offset_of, shape_of
from hfconvert.tensors.shared import Shared
from hfconvert.tensors.source import LocalFile
from hfconvert.tensors.tally import Loss, Tally
from hfconvert.work import Finished, Journal, sync

COPY = 1 << 20  # bytes of a side file copied at once


@dataclass(frozen=True, slots=True)
class Made:
    """A shard that is complete at `path`, the sha256 of its bytes, and what casts lost in it."""

    shard: Shard
    path: Path
    sha256: str
    losses: Mapping[str, Loss]


class _Target(NamedTuple):
    """The file that workers write, its hash, whether to stop, and who wants to know how far it is."""

    descriptor: int
    hash: OrderedHash
    stop: threading.Event
    advance: Callable[[int], object]


class _Piece(NamedTuple):
    placed: Placed
    box: Box
    offset: int  # in the chunk
    nbytes: int


class _Chunk(NamedTuple):
    """Bytes that follow each other in the file and are written at once."""

    start: int
    size: int
    pieces: Sequence[_Piece]


def keep(made: Made, journal: Journal) -> None:
    """Settle an accepted shard: it is synced to disk and takes its name."""
    with made.path.open("rb") as file:
        os.fsync(file.fileno())
    made.path.rename(made.path.with_suffix(""))
    journal.finish(Finished(made.shard.file, made.shard.size, made.sha256, made.losses))


def execute(
    shards: Iterable[Shard],
    folder: Path,
    journal: Journal,
    tally: Tally,
    advance: Callable[[int], object],
    settle: Callable[[Made, Journal], None] = keep,
) -> Generator[Made, None, None]:
    """Make each shard in `folder`, or take it as an earlier run left it. Errors of reading pass through.

    `advance` is told the bytes that are written, from several threads. `settle` does, on a thread, what
    becomes of a shard once it is accepted. Closed early, it waits for what is being settled.
    """
    settled: list[Future[None]] = []
    with ThreadPoolExecutor(1) as settling:
        for shard in shards:
            earlier = journal.finished(shard.file, shard.size)
            if earlier is not None:
                advance(shard.size)
                yield Made(shard, folder / shard.file, earlier.sha256, earlier.losses)
                continue
            path = folder / f"{shard.file}.part"
            sha256 = _make(shard, path, advance)
            made = Made(shard, path, sha256, tally.take())
            yield made
            settled.append(settling.submit(settle, made, journal))
        for future in settled:
            future.result()


def copy_files(files: Sequence[LocalFile], folder: Path) -> Iterator[tuple[str, int, str]]:
    """Copy side files byte for byte into `folder`; name, size and sha256 of each."""
    buffer = memoryview(bytearray(COPY))
    for known in files:
        file = known.apart()
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with path.with_name(path.name + ".part").open("wb") as target:
            for start in range(0, file.size, COPY):
                part = buffer[: min(COPY, file.size - start)]
                file.readinto(part, start)
                digest.update(part)
                target.write(part)
            target.flush()
            os.fsync(target.fileno())
        path.with_name(path.name + ".part").rename(path)
        sync(path.parent)
        yield file.name, file.size, digest.hexdigest()


def _make(shard: Shard, path: Path, advance: Callable[[int], object]) -> str:
    """Write the shard; its sha256."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    target = _Target(descriptor, OrderedHash(), threading.Event(), advance)
    try:
        _write(descriptor, memoryview(shard.header), 0)
        target.hash.update(0, shard.header)
        tasks = Shared(_chunks(shard))
        with ThreadPoolExecutor(WORKERS) as pool:
            try:
                for worker in [pool.submit(_work, tasks, target) for _ in range(WORKERS)]:
                    worker.result()
            finally:
                target.stop.set()
                target.hash.abandon()
        return target.hash.hexdigest()
    finally:
        os.close(descriptor)


def _work(tasks: Shared[_Chunk], target: _Target) -> None:
    """Draw chunks until there are none; one that fails stops the others."""
    buffer = bytearray(BLOCK)
    try:
        for chunk in tasks:
            if target.stop.is_set():
                return
            if chunk.size > len(buffer):
                buffer = bytearray(chunk.size)
            view = memoryview(buffer)[: chunk.size]
            for piece in chunk.pieces:
                _fill(piece, view)
            target.hash.update(chunk.start, view)
            _write(target.descriptor, view, chunk.start)
            target.advance(chunk.size)
    except BaseException:
        target.stop.set()
        target.hash.abandon()
        raise


def _fill(piece: _Piece, view: memoryview) -> None:
    tensor = piece.placed.entry.tensor
    raw = np.frombuffer(view[piece.offset : piece.offset + piece.nbytes], tensor.spec.dtype.raw)
    tensor.fill(raw.reshape(shape_of(piece.box)), piece.box)


def _chunks(shard: Shard) -> Iterator[_Chunk]:
    """Blocks of all the tensors of a shard; small ones that follow each other are written together."""
    pieces: list[_Piece] = []
    start = size = 0
    for placed, box, at, nbytes in _blocks(shard):
        if pieces and size + nbytes > BLOCK:
            yield _Chunk(start, size, pieces)
            pieces, size = [], 0
        if not pieces:
            start = at
        pieces.append(_Piece(placed, box, size, nbytes))
        size += nbytes
    if pieces:
        yield _Chunk(start, size, pieces)


def _blocks(shard: Shard) -> Iterator[tuple[Placed, Box, int, int]]:
    for placed in shard.tensors:
        tensor = placed.entry.tensor
        unit = tensor.spec.dtype.itemsize
        for box in blocks(tensor.extent, unit, BLOCK, tensor.grain):
            at = placed.start + offset_of(box, tensor.extent) * unit
            nbytes = unit
            for lo, hi in box:
                nbytes *= hi - lo
            yield placed, box, at, nbytes


def _write(descriptor: int, view: memoryview, offset: int) -> None:
    """Write the whole view at an offset: `pwrite` may be short."""
    while view.nbytes:
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count
