"""Run a command, and write its times, peak resident memory and exit code to a file, as JSON.

    python -I -S launch.py RESULT.json COMMAND [ARGUMENT ...]

A process's `ru_maxrss` starts at what its parent held when it was started, so a peak read by a large parent
is too high. This parent imports next to nothing: the figure is right for every command above its own 10 MB.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main(result: str, command: list[str]) -> int:
    """Time the command from its start to its end; its own exit code is ours."""
    start = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    with open(result, "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib would triple our size
        figures = {"seconds": seconds, "peak_bytes": usage.ru_maxrss * 1024, "exit": code}
        json.dump({**figures, "cpu_seconds": usage.ru_utime + usage.ru_stime}, file)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
