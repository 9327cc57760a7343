"""A smoke test against the live Hub, by hand: `python -m tests.hub.live REPO`.

REPO is a repository of your own that may get a pull request, and has weights in pickles. The whole job is
run twice with your token; the second run has to find what the first one opened. The pull request stays
open, for you to look at: close it, and hfconvert will not open another one there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def main(arguments: list[str]) -> int:
    """Run the recipe of README.md on a repository, twice; 0 where both runs agree."""
    if len(arguments) != 1 or arguments[0].count("/") != 1:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    first, second = (_run(arguments[0]) for _ in range(2))
    for number, report in enumerate((first, second), 1):
        sys.stdout.write(f"run {number}: {report['status']}  {report['publish']}\n")
    same = first["publish"] is not None and first["publish"] == second["publish"]
    fine = same and second["status"] in ("up-to-date", "skipped")
    sys.stdout.write("as it should be\n" if fine else "NOT as it should be\n")
    return 0 if fine else 1


def _run(repo: str) -> dict[str, Any]:
    recipe = {"version": 1, "source": {"repo": repo}, "publish": {"how": "pull_request"}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "recipe.yaml")
        path.write_text(json.dumps(recipe))
        command = [sys.executable, "-m", "hfconvert", "run", str(path), "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
