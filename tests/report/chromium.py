"""The browser of the tests that need one: found on this machine, quiet and offline."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--virtual-time-budget=3000"),
)


def browser() -> str:
    """The path of Chromium or Chrome. AssertionError where there is none."""
    found = [path for name in BROWSERS if (path := shutil.which(name))]
    assert found, f"one of {', '.join(BROWSERS)} has to be installed"
    return found[0]


def browse(page: Path, profile: Path, options: Sequence[str], *, dark: bool = False) -> str:
    """Open a page with a fresh profile; what Chromium prints."""
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    command = [browser(), *QUIET, scheme, f"--user-data-dir={profile}", *options, page.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout
