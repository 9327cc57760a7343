"""The picture in README.md: the page of the quickstart, cast to bfloat16. Made anew with Chromium.

python -m tests.report.picture [FILE.png]
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from hfconvert.console import Console
from hfconvert.recipe import load
from hfconvert.report.page import report_page
from hfconvert.run import run
from tests.report.chromium import browse

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / ".github" / "page.png"
WIDTH, HEIGHT = 1000, 1200


def main() -> None:
    """Make the picture where README.md looks for it, or elsewhere."""
    make_picture(Path(sys.argv[1]).resolve() if sys.argv[1:] else PICTURE)


def make_picture(picture: Path) -> None:
    """Run the quickstart, open its page, and take the picture of the upper part of it."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        asked = [f"output.path={work / 'out'}", "dtype=bfloat16"]
        report = run(load(ROOT / "configs" / "quickstart.yaml", asked), Console(verbosity=-1))
        report = replace(report, output="quickstart-bfloat16")  # and not a place that is gone
        page = work / "page.html"
        page.write_text(report_page(report), encoding="utf-8")
        size = f"--window-size={WIDTH},{HEIGHT}"
        browse(page, work / "profile", [size, f"--screenshot={picture}"])


if __name__ == "__main__":
    main()
