"""All the checks over the files of a plan, in the order of the report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from hfconvert.checks.dtypes import check_dtypes
from hfconvert.checks.files import check_files
from hfconvert.checks.held import Held
from hfconvert.checks.names import check_names
from hfconvert.checks.result import Check
from hfconvert.checks.tensors import Compared, skipped_tensors, tensors_check
from hfconvert.checks.ties import Restored
from hfconvert.checks.written import Written, open_written
from hfconvert.planning.plan import Plan
from hfconvert.readers.config import CONFIG
from hfconvert.readers.index import SUFFIX
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.tally import Loss

_NOTHING: Mapping[str, Written] = MappingProxyType({})


def prove(
    planned: Plan,
    folder: Path,
    compared: Compared | None,
    losses: Mapping[str, Loss],
    *,
    sampled: bool = False,
    held: Held | None = None,
    gone: Mapping[str, Written] = _NOTHING,
) -> tuple[Check, ...]:
    """Check what was written into the folder.

    `compared` is what came of comparing the values of all the files, None where the recipe says that they
    are not compared, `sampled` says that it were some of the values; `losses` are those of the casts;
    `held` is what came of holding merged tensors against their exact sums. `gone` are shards that were
    opened and compared, and lie in the folder no more.
    """
    expected = {
        placed.name: (shard.file, placed.entry.tensor.spec)
        for shard in planned.shards
        for placed in shard.tensors
    }
    files = {
        shard.file: gone.get(shard.file) or open_written(folder / shard.file, shard.file)
        for shard in planned.shards
    }
    indexes = [text.file for text in planned.texts if text.file.endswith(SUFFIX)]
    index = folder / indexes[0] if indexes else None
    sums = planned.merges.sums
    ties = [
        Restored(
            tie.kept, tie.dropped, None if compared is None or tie.kept in sums else tie.tensor
        )
        for tie in planned.ties
    ]
    config = folder / CONFIG
    return (
        check_names(expected, files, index, ties, config if config.is_file() else None),
        skipped_tensors()
        if compared is None
        else tensors_check(compared, len(expected) - len(sums), sampled=sampled),
        *_merge_checks(planned, held),
        check_files(
            planned.copies,
            [(one.source, one.changed) for one in planned.rewritten],
            [*(files.keys() - gone.keys()), *(text.file for text in planned.texts)],
            folder,
            gone.values(),
        ),
        check_dtypes(files.values(), _codes(expected), planned.before, losses),
    )


def _merge_checks(planned: Plan, held: Held | None) -> tuple[Check, ...]:
    """The `merge` check, where there are adapters."""
    if not planned.merges.adapters:
        return ()
    from hfconvert.checks.merge import merge_check  # noqa: PLC0415 - runs without a merge are many

    return (merge_check(held, planned.merges),)


def _codes(expected: Mapping[str, tuple[str, TensorSpec]]) -> dict[str, str]:
    return {name: spec.dtype.code for name, (_, spec) in expected.items()}
