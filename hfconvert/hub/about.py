"""What a call to the Hub is about: for messages when it fails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from hfconvert.errors import Exit, Problem

Act = Literal["read", "propose", "write", "create", "sign in"]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The repository and file that a call is about, and what it does there.

    `read` reads; `propose` opens a pull request or speaks in it; `write` commits to a branch; `create` makes
    the repository; `sign in` asks who the token belongs to. `signed_in` says whether a token goes along.
    """

    repo: str = ""
    act: Act = "read"
    revision: str = ""
    file: str = ""
    endpoint: str = "https://huggingface.co"
    signed_in: bool = False

    @property
    def subject(self) -> str:
        """How messages call it: `org/model@main/config.json`, as far as it is known."""
        at = f"@{self.revision[:12]}" if self.revision else ""
        return f"{self.repo}{at}{f'/{self.file}' if self.file else ''}"

    @property
    def page(self) -> str:
        """Where the repository is on the web."""
        return f"{self.endpoint}/{self.repo}"

    def at(self, file: str) -> About:
        """The same about a file."""
        return replace(self, file=file)


def hub_problem(about: About, what: str, *, why: str, do: str, check: str = "hub") -> Problem:
    """The Hub said no, or could not be reached (exit 4)."""
    return Problem(exit=Exit.HUB, check=check, subject=about.subject, what=what, why=why, do=do)
