"""The files by which a step hands outputs and a summary to GitHub's runner."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

MOST_SUMMARY = 1 << 20  # bytes of a step's summary: of a longer one nothing is shown
_CUT = "\n\nThe rest is left out: a summary holds 1 MiB. The report has it all.\n"


def write_outputs(environment: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    """Append to the file of GITHUB_OUTPUT, if any: no value can end early or begin another output."""
    _append(environment.get("GITHUB_OUTPUT", ""), _bytes("".join(map(_output, outputs.items()))))


def write_summary(environment: Mapping[str, str], text: str) -> None:
    """Append to the file of GITHUB_STEP_SUMMARY, if any; cut so that the file stays below 1 MiB."""
    name = environment.get("GITHUB_STEP_SUMMARY", "")
    path = Path(name)
    taken = path.stat().st_size if name and path.is_file() else 0
    _append(name, cut(text, MOST_SUMMARY - 1 - taken))


def cut(text: str, most: int) -> bytes:
    """The text as UTF-8 of at most so many bytes, cut at the end of a line, and said so."""
    data = _bytes(text)
    if len(data) <= most:
        return data
    room = most - len(_CUT)
    return data[: data.rfind(b"\n", 0, room)] + _CUT.encode() if room > 0 else b""


def _output(item: tuple[str, str]) -> str:
    name, value = item
    end = f"end-{secrets.token_hex(16)}"
    return f"{name}<<{end}\n{value}\n{end}\n"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="backslashreplace")


def _append(name: str, data: bytes) -> None:
    if name:
        with Path(name).open("ab") as file:
            file.write(data)
