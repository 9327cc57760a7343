"""What a run has to say: one form for everything worth telling, from a note to an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that the user should know.

    `check` names the part of the run that found it (`names`, `source`, `recipe`, ...), `subject` what it
    is about (a file, a tensor, `recipe.yaml:12:7`), `hint` what can be done about it.
    """

    level: Level
    check: str
    subject: str
    message: str
    hint: str = ""

    def as_json(self) -> dict[str, str]:
        """The finding as every JSON document of hfconvert holds it."""
        return {
            "level": self.level,
            "check": self.check,
            "subject": self.subject,
            "message": self.message,
            "hint": self.hint,
        }


def warning(check: str, subject: str, message: str, hint: str = "") -> Finding:
    """A finding that stops nothing but deserves a look."""
    return Finding(level="warning", check=check, subject=subject, message=message, hint=hint)


def info(check: str, subject: str, message: str, hint: str = "") -> Finding:
    """A finding that records a decision."""
    return Finding(level="info", check=check, subject=subject, message=message, hint=hint)
