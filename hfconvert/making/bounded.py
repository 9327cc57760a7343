"""Make a plan's shards on a disk that holds two of them: each is checked, handed on, and dropped.

While one shard is handed on, the next is made. A shard that an earlier run handed on is made again: bytes
repeat, and the journal knows its sha256.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Protocol, runtime_checkable

from hfconvert.checks.result import Check
from hfconvert.checks.ties import Restored, tie_faults
from hfconvert.checks.written import Written, open_written
from hfconvert.console import Console
from hfconvert.errors import raise_any, values_problem
from hfconvert.making.converting import is_remote
from hfconvert.making.execute import Made, execute
from hfconvert.making.make import Looks, Result, write_others
from hfconvert.making.work import Finished, Journal, check_space
from hfconvert.planning.plan import Plan
from hfconvert.planning.shards import Shard
from hfconvert.readers.torch_checksums import covering, flipped
from hfconvert.recipe import Recipe
from hfconvert.report.model import Output
from hfconvert.tensors.box import full
from hfconvert.tensors.source import ByteRange, ByteSource

HandOn = Callable[[Made], object]


@runtime_checkable
class Staged(Protocol):
    """A source whose staged bytes lie on this disk until they are given back."""

    def discard(self) -> None:
        """Give the disk back what was staged and kept."""


def bounded_bytes(planned: Plan) -> int:
    """The disk that a bounded run takes at most: two shards, what is read for one, and all small files."""
    sizes = [shard.size for shard in planned.shards]
    pairs = [sum(sizes[at : at + 2]) for at in range(len(sizes))]
    small = planned.output_bytes - sum(sizes)
    return max(pairs, default=0) + max(map(_staged_bytes, planned.shards), default=0) + small


def make_bounded(
    planned: Plan,
    folder: Path,
    journal: Journal,
    recipe: Recipe,
    console: Console,
    hand_on: HandOn,
) -> Result:
    """Make and check every file; weights are handed on one by one, all else stays in the folder."""
    check_space(folder, bounded_bytes(planned))
    looks, gone = Looks(planned, recipe), dict[str, Written]()
    others = list(write_others(planned, folder))
    outputs: list[Output] = []
    pending: Future[None] | None = None
    shards = _staged(planned, recipe)
    with (
        ThreadPoolExecutor(1) as pool,
        console.progress("convert", planned.output_bytes) as advance,
        closing(
            execute(shards, folder, journal, planned.tally, advance, _leave, together=1)
        ) as made_ones,
    ):
        for made in made_ones:
            _check_repeats(made, journal)
            outputs.append(looks.look_at(made))
            gone[made.shard.file] = _opened(made, planned)
            if pending is not None:
                pending.result()
            pending = pool.submit(_drop, made, journal, None if looks.faulty else hand_on)
            console.done(f"{made.shard.file}  {made.shard.size} bytes  sha256 {made.sha256}")
        if pending is not None:
            pending.result()
    checks = (*looks.prove(folder, gone), _no_logits())
    return Result((*outputs, *others), checks, tuple(looks.findings()))


def _staged(planned: Plan, recipe: Recipe) -> Iterator[Shard]:
    """The shards, each with what it needs close by; what the one before needed is given back."""
    # Files that lie here are held against their checksums as a whole, by `converting`.
    apart = recipe.validation.tensors == "full" and is_remote(planned)
    _give_back(planned.sources)  # what was kept of headers is needed no more
    for shard in planned.shards:
        ranges = list(_needs(shard))
        sources = {id(part.source): part.source for part in ranges}
        for key, source in sources.items():
            source.stage([(one.start, one.stop) for one in ranges if id(one.source) == key])
        if apart:
            raise_any(flipped(covering(planned.checksums, ranges)))
        yield shard
        _give_back(sources.values())


def _give_back(sources: Iterable[ByteSource]) -> None:
    for source in sources:
        if isinstance(source, Staged):
            source.discard()


def _needs(shard: Shard) -> Iterator[ByteRange]:
    for placed in shard.tensors:
        yield from placed.entry.tensor.needs(full(placed.entry.tensor.extent))


def _staged_bytes(shard: Shard) -> int:
    """Bytes that lie on the disk while a shard is made; local files lie there anyway."""
    return sum(part.stop - part.start for part in _needs(shard) if isinstance(part.source, Staged))


def _leave(_made: Made, _journal: Journal) -> None:
    """Settle nothing: what becomes of a shard is decided here."""


def _drop(made: Made, journal: Journal, hand_on: HandOn | None) -> None:
    """Hand a shard on, unless a check failed; then its bytes are gone from this disk."""
    if hand_on is not None:
        hand_on(made)
        journal.finish(Finished(made.shard.file, made.shard.size, made.sha256, made.losses))
    made.path.unlink()


def _opened(made: Made, planned: Plan) -> Written:
    """The shard as both parsers see it, with the faults of its ties; it will be gone."""
    file = made.shard.file
    written = open_written(made.path, file)
    names = {placed.name for placed in made.shard.tensors} - planned.merges.sums.keys()
    ties = [
        Restored(tie.kept, tie.dropped, tie.tensor) for tie in planned.ties if tie.kept in names
    ]
    return Written(written.header, written.held, None, tie_faults(ties, {file: written}, None))


def _check_repeats(made: Made, journal: Journal) -> None:
    """UserError (exit 1) where a shard that was handed on before comes out as another one."""
    earlier = journal.recorded.get(made.shard.file)
    if earlier is not None and earlier.sha256 != made.sha256:
        raise_any(
            [
                values_problem(
                    f"it comes out with the sha256 {made.sha256}, before the interruption it was "
                    f"{earlier.sha256}",
                    why="the libraries or the machine are others now, or memory or disk fail",
                    do="run again on one machine; if it persists, report it",
                    subject=made.shard.file,
                    check="publish",
                )
            ]
        )


def _no_logits() -> Check:
    """Why logits are not compared: the weights are not on this disk."""
    return Check("logits", "skipped", detail="output.disk is bounded: no model lies on the disk")
