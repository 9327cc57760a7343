"""The outcome of a check, as the report holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["pass", "fail", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    """A check by name, its status, what was measured against which limit, and one line of detail."""

    name: str
    status: Status
    measured: Mapping[str, Any] = field(default_factory=dict)
    limit: Mapping[str, Any] = field(default_factory=dict)
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        """The check as the report holds it."""
        return {
            "name": self.name,
            "status": self.status,
            "measured": dict(self.measured),
            "limit": dict(self.limit),
            "detail": self.detail,
        }
