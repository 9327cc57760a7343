"""A result with its words, and what came of offering it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hfconvert.findings import Finding
from hfconvert.hub.marker import Marker
from hfconvert.hub.source import Snapshot
from hfconvert.hub.uploads import Proven

Fate = Literal["made", "open", "merged", "refused", "committed", "held"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A result with its words.

    `describe` says what it is and why, given the commit that it stands on and the files that go with it;
    `invite` how to try the pull request of that number. `card` makes the model card that goes along, from the
    commit that it stands on; None where there is none to make.
    """

    files: tuple[Proven, ...]
    title: str
    mark: Marker
    describe: Callable[[Snapshot, Sequence[str]], str]
    invite: Callable[[int], str]
    card: Callable[[Snapshot], Proven] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What came of it: `made` now; found `open`, `merged` or `committed`; `refused` by the owner; or `held`,
    where the repository has these very files."""

    fate: Fate
    repo: str
    pr_url: str | None = None
    pr_number: int | None = None
    commit: str | None = None
    findings: tuple[Finding, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As `publish` of the report holds it."""
        return {
            "repo": self.repo,
            "pr_url": self.pr_url,
            "pr_number": self.pr_number,
            "commit": self.commit,
        }
