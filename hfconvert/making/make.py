"""Make every file of a plan in a work folder, look at each while it is new, and check them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from hfconvert.checks.first import Blocks
from hfconvert.checks.held import Held
from hfconvert.checks.result import Check
from hfconvert.checks.sample import every_block, sampled_blocks
from hfconvert.checks.tensors import NOTHING, Compared, compare_file
from hfconvert.checks.written import Written
from hfconvert.console import Console
from hfconvert.findings import Finding, warning
from hfconvert.hashing import hash_bytes
from hfconvert.making.execute import Made, copy_files, execute
from hfconvert.making.opening import measure_opening
from hfconvert.making.work import Journal, check_space, write_file
from hfconvert.planning.plan import Plan
from hfconvert.proving.prove import prove
from hfconvert.recipe import Recipe
from hfconvert.report.model import Opening, Output
from hfconvert.tensors.tally import Loss

_BLOCKS: Mapping[str, Blocks | None] = {"full": every_block, "sample": sampled_blocks, "off": None}


@dataclass(frozen=True, slots=True)
class Result:
    """What a run wrote and proved, before it is handed over."""

    outputs: tuple[Output, ...]
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...] = ()
    opening: Opening | None = None
    versions: Mapping[str, str] = field(default_factory=dict)  # of libraries in other processes

    @property
    def failed(self) -> bool:
        """Whether a check failed."""
        return any(check.status == "fail" for check in self.checks)


class Looks:
    """What is found in the shards of a plan, one after the other, each by a second route."""

    def __init__(self, planned: Plan, recipe: Recipe) -> None:
        self._planned, self._blocks = planned, _BLOCKS[recipe.validation.tensors]
        self._compared: Compared = NOTHING
        self._held = Held()
        self._losses: dict[str, Loss] = {}

    def look_at(self, made: Made) -> Output:
        """Compare a shard with the source; it as an output."""
        shard, merges = made.shard, self._planned.merges
        if self._blocks:
            tensors = {placed.name: placed.entry.tensor for placed in shard.tensors}
            self._compared += compare_file(
                made.path, shard.file, tensors, self._blocks, merges.sums
            )
            if merges.sums:
                self._hold(made)
        self._losses.update(made.losses)
        return Output(shard.file, shard.size, made.sha256)

    def _hold(self, made: Made) -> None:
        from hfconvert.checks.merge import hold_file  # noqa: PLC0415 - runs without a merge are many

        some = None if self._blocks is every_block else self._blocks
        self._held += hold_file(made.path, made.shard.file, self._planned.merges, some)

    @property
    def faulty(self) -> bool:
        """Whether a value was found that is not the source's."""
        return bool(self._compared.differences or self._held.wrong)

    def prove(self, folder: Path, gone: Mapping[str, Written] | None = None) -> tuple[Check, ...]:
        """All the checks, once every file is there; `gone` are shards that lie in the folder no more."""
        return prove(
            self._planned,
            folder,
            self._compared if self._blocks else None,
            self._losses,
            sampled=self._blocks is sampled_blocks,
            held=self._held if self._blocks else None,
            gone=gone or {},
        )

    def findings(self) -> Iterator[Finding]:
        """What casts lost."""
        for name, loss in self._losses.items():
            if loss.underflow:
                share = (
                    f"{loss.underflow} of {loss.values} values ({loss.underflow / loss.values:.2%})"
                )
                message = f"{share} are too small for the new dtype and become zero"
                yield warning("dtypes", name, message, "keep a wider dtype for it by a rule")


def make(planned: Plan, folder: Path, journal: Journal, recipe: Recipe, console: Console) -> Result:
    """Make, hash and check every file in the work folder."""
    check_space(folder, planned.output_bytes - journal.nbytes)
    looks, outputs = Looks(planned, recipe), []
    with (
        console.progress("convert", planned.output_bytes) as advance,
        closing(execute(planned.shards, folder, journal, planned.tally, advance)) as shards,
    ):
        for made in shards:
            outputs.append(looks.look_at(made))
            console.done(f"{made.shard.file}  {made.shard.size} bytes  sha256 {made.sha256}")
        outputs += write_others(planned, folder)
    checks = looks.prove(folder)
    opening = measure_opening(planned, folder)
    return Result(tuple(outputs), checks, tuple(looks.findings()), opening)


def write_others(planned: Plan, folder: Path) -> Iterator[Output]:
    """Write what holds no weights: side files, the index, the configuration where it changes."""
    yield from (Output(*copied) for copied in copy_files(planned.copies, folder))
    for file, content in _texts(planned):
        write_file(folder / file, content)
        yield Output(file, len(content), hash_bytes(content))


def _texts(planned: Plan) -> Iterable[tuple[str, bytes]]:
    yield from ((text.file, text.content) for text in planned.texts)
    yield from ((one.source.name, one.content) for one in planned.rewritten)
