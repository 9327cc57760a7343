"""Whether disk and memory are enough for a plan: asked before anything of it is fetched or made."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hfconvert.errors import Problem, raise_any, resource_problem
from hfconvert.making.work import beside, read_record
from hfconvert.memory import available_memory_bytes
from hfconvert.planning.plan import Plan
from hfconvert.report.sizes import human
from hfconvert.workplace import workplace


def check_room(planned: Plan, output: Path) -> None:
    """UserError (exit 5) with all that lacks for a run that keeps its result in `output`.

    Where a result lies there already, nothing is made.
    """
    if read_record(output) is not None:
        return
    raise_any((*_too_little_disk(planned, output.absolute()), *too_little_memory(planned)))


def too_little_memory(planned: Plan) -> Iterator[Problem]:
    """What to say where the memory is too small."""
    memory = available_memory_bytes()
    if planned.peak_memory_bytes > memory:
        yield resource_problem(
            f"the run needs about {human(planned.peak_memory_bytes)} of memory, and {human(memory)} are free",
            why="a tensor has to be held as a whole, or something else uses the memory",
            do="run it on a larger machine, or end what uses the memory",
        )


def free_bytes(folder: Path) -> int:
    """Bytes that the disk of a folder has free."""
    return shutil.disk_usage(folder).free


def _too_little_disk(planned: Plan, output: Path) -> Iterator[Problem]:
    """Each disk for what comes to lie on it. What a work folder has already is known when it is opened."""
    download = planned.origin.download_bytes if planned.origin else 0
    begun = os.path.exists(beside(output))  # noqa: PTH110 - that of Path raises where it may not look
    made = 0 if begun else planned.output_bytes
    needed: Counter[int] = Counter()
    folders: dict[int, Path] = {}
    for path, nbytes in ((workplace(), download), (output.parent, made)):
        folder = _there(path.absolute())
        disk = folder.stat().st_dev
        needed[disk] += nbytes
        folders[disk] = folder
    for disk, nbytes in needed.items():
        free = free_bytes(folders[disk])
        if nbytes > free and _is_a_disk(folders[disk]):
            yield resource_problem(
                f"the run needs {human(nbytes)} of disk, and {human(free)} are free",
                why="the disk is too small for what is downloaded and for the result",
                do="free some space, set HF_HOME to a larger disk, or choose an output on another one",
                subject=str(folders[disk]),
            )


def _is_a_disk(folder: Path) -> bool:
    """Not `/proc` and the like, which hold nothing: they refuse by themselves."""
    return shutil.disk_usage(folder).total > 0


def _there(path: Path) -> Path:
    """The path, or the nearest folder above it that is there, as far as this user may look."""
    # not Path.is_dir: before Python 3.14 it raises where a folder above may not be searched
    return next(one for one in (path, *path.parents) if os.path.isdir(one))  # noqa: PTH112
