from __future__ import annotations

import os
from pathlib import Path

import pytest

from hfconvert.memory import available_memory_bytes

MIB = 1 << 20


def tree(root: Path, cgroup: str, **files: str) -> Path:
    """A file system with what a machine says of its memory."""
    told = {
        "proc/meminfo": "MemTotal: 16384 kB\nMemAvailable:    8192 kB\n",
        "proc/self/cgroup": cgroup,
        **files,
    }
    for name, text in told.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def group(folder: str, limit: str, used: int, idle: int = 0) -> dict[str, str]:
    """The files of a group of version 2."""
    base = f"sys/fs/cgroup/{folder}".rstrip("/")
    return {
        f"{base}/memory.max": f"{limit}\n",
        f"{base}/memory.current": f"{used}\n",
        f"{base}/memory.stat": f"anon 5\ninactive_file {idle}\n",
    }


def test_without_groups_it_is_what_the_machine_has_free(tmp_path: Path) -> None:
    assert available_memory_bytes(tree(tmp_path, "")) == 8 * MIB


@pytest.mark.parametrize(
    ("limit", "used", "idle", "left"),
    [
        (str(4 * MIB), MIB, 0, 3 * MIB),
        (str(4 * MIB), 3 * MIB, 2 * MIB, 3 * MIB),
        (str(4 * MIB), 5 * MIB, 0, 0),
        ("max", MIB, 0, 8 * MIB),
        (str(64 * MIB), MIB, 0, 8 * MIB),
    ],
)
def test_a_container_may_have_less(
    tmp_path: Path, limit: str, used: int, idle: int, left: int
) -> None:
    root = tree(tmp_path, "0::/\n", **group("", limit, used, idle))
    assert available_memory_bytes(root) == left


def test_the_groups_around_one_count_too(tmp_path: Path) -> None:
    outer, inner = group("a", str(2 * MIB), MIB), group("a/b", "max", 0)
    assert available_memory_bytes(tree(tmp_path, "0::/a/b\n", **outer, **inner)) == MIB


@pytest.mark.parametrize("folder", ["/job", ""])
def test_groups_of_version_1(tmp_path: Path, folder: str) -> None:
    """In a container the path is that of the machine outside, and the group is mounted at the top."""
    base = f"sys/fs/cgroup/memory{folder}"
    files = {
        f"{base}/memory.limit_in_bytes": f"{6 * MIB}\n",
        f"{base}/memory.usage_in_bytes": f"{5 * MIB}\n",
        f"{base}/memory.stat": f"cache 1\ntotal_inactive_file {2 * MIB}\n",
    }
    root = tree(tmp_path, "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n", **files)
    assert available_memory_bytes(root) == 3 * MIB


def test_a_system_that_tells_nothing(tmp_path: Path) -> None:
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    assert available_memory_bytes(tmp_path) == half


def test_this_machine_has_some() -> None:
    assert 0 < available_memory_bytes() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
