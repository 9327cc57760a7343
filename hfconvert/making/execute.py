"""Make the shards of a plan, a block at a time.

Two workers read blocks, hash them in turn while they are in the processor's cache, and write them at their
planned places: always the same bytes. Each begins with a shard of its own, since sha256 is slower than the
disk and goes through a file from front to back, and helps with the other's when its own is done. A shard is
handed on under a temporary name; when the caller asks for the next one it has accepted this one, which is
then synced to disk and takes its name.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hfconvert.hashing import OrderedHash
from hfconvert.making.direct import WrittenFile
from hfconvert.making.work import Finished, Journal, sync
from hfconvert.planning.shards import BUFFERS, WORKERS, Placed, Shard, block_of
from hfconvert.tensors.box import Box, blocks, offset_of, shape_of
from hfconvert.tensors.pages import PAGE, pages
from hfconvert.tensors.shared import Shared
from hfconvert.tensors.source import LocalFile
from hfconvert.tensors.tally import Loss, Tally

COPY = 1 << 20  # bytes of a side file copied at once
WRITERS = 2  # threads that wait for the disk


@dataclass(frozen=True, slots=True)
class Made:
    """A shard that is complete at `path`, the sha256 of its bytes, and what casts lost in it."""

    shard: Shard
    path: Path
    sha256: str
    losses: Mapping[str, Loss]


@dataclass(frozen=True, slots=True)
class _Target:
    """A shard that is being made: its file, the hash of that, and the chunks that nobody has begun.

    `block` is about what a chunk has in bytes.
    """

    shard: Shard
    file: WrittenFile
    hash: OrderedHash
    block: int
    chunks: Shared[_Chunk]


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
    *,
    together: int = WORKERS,
) -> Generator[Made, None, None]:
    """Make each shard in `folder`, or take it as an earlier run left it. Errors of reading pass through.

    `advance` is told the bytes that are written, from several threads. `settle` does, on a thread, what
    becomes of a shard once it is accepted. `together` shards are made at a time, before the first of them
    is handed on. Closed early, it waits for what is being settled.
    """
    settled: list[Future[None]] = []
    remaining = iter(shards)
    with ThreadPoolExecutor(1) as settling:
        while group := list(islice(remaining, together)):
            earlier = {shard.file: journal.finished(shard.file, shard.size) for shard in group}
            new = [shard for shard in group if earlier[shard.file] is None]
            sums = _make(new, folder, advance)
            for shard in group:
                done = earlier[shard.file]
                if done is not None:
                    advance(shard.size)
                    yield Made(shard, folder / shard.file, done.sha256, done.losses)
                    continue
                losses = tally.take(placed.name for placed in shard.tensors)
                made = Made(shard, _part(folder, shard), sums[shard.file], losses)
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


def _part(folder: Path, shard: Shard) -> Path:
    return folder / f"{shard.file}.part"


def _make(
    shards: Sequence[Shard],
    folder: Path,
    advance: Callable[[int], object],
) -> dict[str, str]:
    """Write the shards, one worker at each desk; sha256 by file."""
    stop = threading.Event()
    desks = [[_Buffer() for _ in range(BUFFERS)] for _ in range(WORKERS)]
    with (
        ExitStack() as stack,
        ThreadPoolExecutor(WRITERS) as writers,
        ThreadPoolExecutor(WORKERS) as pool,
    ):
        targets = [_open(shard, folder, stack) for shard in shards]
        work = partial(_work, stop=stop, advance=advance, writers=writers)
        try:
            workers = [
                pool.submit(work, *each) for each in zip(_orders(targets), desks, strict=True)
            ]
            for worker in workers:
                worker.result()
        finally:
            _halt(targets, stop)
    return {target.shard.file: target.hash.hexdigest() for target in targets}


def _orders(targets: Sequence[_Target]) -> Iterator[Sequence[_Target]]:
    """In which order each worker takes the shards up: each begins with one of its own."""
    for number in range(WORKERS):
        first = number % len(targets) if targets else 0
        yield [*targets[first:], *targets[:first]]


def _open(shard: Shard, folder: Path, stack: ExitStack) -> _Target:
    """The shard's file with its header, closed with the stack."""
    file = stack.enter_context(closing(WrittenFile(_part(folder, shard))))
    block = block_of(shard)
    target = _Target(shard, file, OrderedHash(), block, Shared(_chunks(shard, block)))
    file.write(memoryview(shard.header), 0)
    target.hash.update(0, shard.header)
    return target


def _halt(targets: Iterable[_Target], stop: threading.Event) -> None:
    """Let nobody begin or wait for another chunk."""
    stop.set()
    for target in targets:
        target.hash.abandon()


def _work(
    targets: Sequence[_Target],
    buffers: list[_Buffer],
    *,
    stop: threading.Event,
    advance: Callable[[int], object],
    writers: Executor,
) -> None:
    """Draw chunks until there are none, of one shard after the other; one that fails stops all workers.

    Buffers take turns: one is filled and hashed while the others are on their way to the disk.
    """
    try:
        for target in targets:
            for chunk in target.chunks:
                if stop.is_set():
                    return
                buffers.append(buffers.pop(0))
                view = buffers[0].view(chunk.start, chunk.size, target.block)
                for piece in chunk.pieces:
                    _fill(piece, view)
                target.hash.update(chunk.start, view)
                buffers[0].written = writers.submit(target.file.write, view, chunk.start)
                advance(chunk.size)
        for buffer in buffers:
            buffer.wait()
    except BaseException:
        _halt(targets, stop)
        raise


class _Buffer:
    """Memory for one chunk at a time."""

    def __init__(self) -> None:
        self._memory = pages(0)
        self.written: Future[None] | None = None

    def view(self, start: int, size: int, block: int) -> memoryview:
        """Room for what goes to byte `start` of a file, once what was there before is written."""
        self.wait()
        if size + PAGE > self._memory.nbytes:
            self._memory = pages(0)  # two at once would be one too many
            self._memory = pages(max(size, block))
        return self._memory[start % PAGE : start % PAGE + size]

    def wait(self) -> None:
        """Wait for the writing of what was last put there. OSError where that failed."""
        if self.written is not None:
            self.written.result()
            self.written = None


def _fill(piece: _Piece, view: memoryview) -> None:
    tensor = piece.placed.entry.tensor
    raw = np.frombuffer(view[piece.offset : piece.offset + piece.nbytes], tensor.spec.dtype.raw)
    tensor.fill(raw.reshape(shape_of(piece.box)), piece.box)


def _chunks(shard: Shard, block: int) -> Iterator[_Chunk]:
    """Blocks of all the tensors of a shard; small ones that follow each other are written together."""
    pieces: list[_Piece] = []
    start = size = 0
    for placed, box, at, nbytes in _blocks(shard, block):
        if pieces and size + nbytes > block:
            yield _Chunk(start, size, pieces)
            pieces, size = [], 0
        if not pieces:
            start = at
        pieces.append(_Piece(placed, box, size, nbytes))
        size += nbytes
    if pieces:
        yield _Chunk(start, size, pieces)


def _blocks(shard: Shard, block: int) -> Iterator[tuple[Placed, Box, int, int]]:
    for placed in shard.tensors:
        tensor = placed.entry.tensor
        unit = tensor.spec.dtype.itemsize
        for box in blocks(tensor.extent, unit, block, tensor.grain):
            at = placed.start + offset_of(box, tensor.extent) * unit
            nbytes = unit
            for lo, hi in box:
                nbytes *= hi - lo
            yield placed, box, at, nbytes
