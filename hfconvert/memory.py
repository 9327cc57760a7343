"""Memory that can be had: what the machine has free, within the limits of a container around this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_ROOT = Path("/")
# By version of control groups: where they are mounted, and the files of limit and use.
_VERSIONS = {
    "": ("sys/fs/cgroup", "memory.max", "memory.current"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
}


def available_memory_bytes(root: Path = _ROOT) -> int:
    """Memory that can be had without swapping: MemAvailable, or less where a control group leaves less.

    Where the system tells neither, half of what the machine has. `root` is the top of the file system.
    """
    found = [*_left_to_machine(root), *_left_to_groups(root)]
    return min(found) if found else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _left_to_machine(root: Path) -> Iterator[int]:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _left_to_groups(root: Path) -> Iterator[int]:
    """What each control group of this process leaves to it, those around them included.

    Lines of /proc/self/cgroup are `ID:CONTROLLERS:PATH`. Files that a group read count as its use until the
    memory is needed: those that are not in use are as good as free.
    """
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        mount, limit, used = _VERSIONS.get(controllers, ("", "", ""))
        inside = PurePosixPath(path.lstrip("/"))
        for folder in (inside, *inside.parents) if mount else ():
            numbers = [_number(root / mount / folder / name) for name in (limit, used)]
            if None not in numbers:
                most, taken = (number or 0 for number in numbers)
                yield max(0, most - taken + _idle_files(root / mount / folder))


def _idle_files(folder: Path) -> int:
    stat = dict(line.split(" ", 1) for line in _lines(folder / "memory.stat"))
    return int(stat.get("total_inactive_file", stat.get("inactive_file", "0")))


def _number(path: Path) -> int | None:
    """The number in a file; None where there is no such file, or it says `max`."""
    text = "".join(_lines(path))
    return int(text) if text.isdecimal() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").splitlines()
    except OSError:
        return []
