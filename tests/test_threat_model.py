"""The threat model names code and tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / ".github" / "THREAT_MODEL.md").read_text()
ROWS = [line.split(" | ") for line in TEXT.splitlines() if re.match(r"\| (?!attacker)", line)]


def test_every_file_that_it_names_exists() -> None:
    named = set(re.findall(r"`([\w./-]+/[\w./-]+|[\w-]+\.\w+)`", TEXT)) - {"hfconvert.json"}
    assert len(named) > 40
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_every_row_names_what_holds_and_what_tests_it() -> None:
    assert len(ROWS) > 12
    unheld = [row[1] for row in ROWS if "`" not in row[2]]
    untested = [row[1] for row in ROWS if not re.search(r"`(tests/|\.ci/)", row[3])]
    assert (unheld, untested) == ([], [])


def test_security_and_readme_lead_to_it() -> None:
    assert "(THREAT_MODEL.md)" in (ROOT / ".github" / "SECURITY.md").read_text()
    assert "(.github/THREAT_MODEL.md)" in (ROOT / "README.md").read_text()
