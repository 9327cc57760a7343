"""Parts of a report as Markdown, as pull requests and model cards show them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hfconvert.checks.result import Check
from hfconvert.readers.contents import PickleFacts
from hfconvert.report.model import Output
from hfconvert.report.sizes import counted, human

_MOST_ROWS = 12  # a longer table is folded
_MOST_IMPORTS = 20
_LONGEST = 400  # letters of a sentence
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_PATH = re.compile(r"(?<![\w.:/])/(?:[^\s/:;,`'\"]+/)+([^\s/:;,`'\"]+)")
_OUTCOME = {"pass": "passed", "fail": "FAILED", "skipped": "not done"}


def code(text: str) -> str:
    """A name as code, whatever it holds: backticks, bars, comments and line ends change nothing around it."""
    plain = _CONTROL.sub(" ", text).replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest or not plain.strip() else ""
    return f"{fence}{space}{plain}{space}{fence}"


def prose(text: str) -> str:
    """A sentence for the public: no line ends, no markup of its own, no path of this machine."""
    plain = _PATH.sub(r"\1", _CONTROL.sub(" ", text)).replace("<", "&lt;")
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}..."


def files_table(outputs: Sequence[Output]) -> str:
    """Every file with its size and sha256; folded away where there are many."""
    rows = [f"| {code(one.file)} | {human(one.size)} | `{one.sha256}` |" for one in outputs]
    table = "\n".join(["| file | size | sha256 |", "|---|--:|---|", *rows])
    if len(rows) <= _MOST_ROWS:
        return table
    total = human(sum(one.size for one in outputs))
    summary = f"{counted(len(rows), 'file')}, {total} in all"
    return f"<details><summary>{summary}</summary>\n\n{table}\n\n</details>"


def checks_table(checks: Iterable[Check]) -> str:
    """Every check with its outcome and figures."""
    rows = [f"| `{check.name}` | {_OUTCOME[check.status]} | {_told(check)} |" for check in checks]
    return "\n".join(["| check | outcome | what was found |", "|---|---|---|", *rows])


def pickle_lines(pickles: Iterable[tuple[str, PickleFacts]]) -> Iterator[str]:
    """A line a pickle: what it would have had imported, and how that is judged."""
    for file, facts in pickles:
        judged = {
            verdict: [f"{one.module}.{one.name}" for one in facts.imports if one.verdict == verdict]
            for verdict in ("dangerous", "unknown", "inert")
        }
        parts = [f"{word}: {_some(names)}" for word, names in judged.items() if names]
        yield f"- {code(file)}: {'; '.join(parts) or 'imports nothing'}"


def _told(check: Check) -> str:
    figures = ", ".join(_figures(check.measured))
    text = "; ".join(part for part in (figures, check.detail) if part)
    return prose(text).replace("|", "\\|")


def _figures(measured: Mapping[str, Any]) -> Iterator[str]:
    for name, value in measured.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            continue
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        yield f"{name.replace('_', ' ')} {shown}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(code(name) for name in names[:_MOST_IMPORTS])
    rest = len(names) - _MOST_IMPORTS
    return f"{shown} and {rest} more" if rest > 0 else shown
