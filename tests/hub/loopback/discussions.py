"""Discussions and pull requests: a status and a list of events, in the forms that the client parses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

Status = Literal["draft", "open", "closed", "merged"]


@dataclass(slots=True, kw_only=True)
class Event:
    """Something that happened in a discussion; `data` depends on the kind."""

    id: str
    kind: Literal["comment", "commit", "status-change", "title-change"]
    author: str
    data: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The event as the API gives it."""
        author = {"name": self.author}
        return {
            "id": self.id,
            "type": self.kind,
            "createdAt": timestamp(0),
            "author": author,
            "data": self.data,
        }


@dataclass(eq=False, slots=True, kw_only=True)
class Discussion:
    """A discussion, or a pull request: then its commits are at `ref`, and begin at the commit `base`."""

    num: int
    title: str
    author: str
    status: Status
    base: str | None = None
    merge_commit: str | None = None
    events: list[Event] = field(default_factory=list)

    @property
    def is_pull_request(self) -> bool:
        return self.base is not None

    @property
    def ref(self) -> str:
        return f"refs/pr/{self.num}"

    @property
    def comments(self) -> list[Event]:
        """The comments, the description first."""
        return [event for event in self.events if event.kind == "comment"]

    def comment(self, author: str, text: str) -> Event:
        """Add a comment."""
        latest = {
            "raw": text,
            "html": text,
            "updatedAt": timestamp(0),
            "author": {"name": author},
        }
        data = {"edited": False, "hidden": False, "latest": latest, "history": []}
        return self._add("comment", author, data)

    def edit(self, event: Event, text: str) -> None:
        """Replace the text of a comment; what it said is kept in its history."""
        event.data["history"].append(dict(event.data["latest"]))
        event.data["latest"].update(raw=text, html=text)
        event.data["edited"] = True

    def add_commit(self, author: str, subject: str, oid: str) -> Event:
        """Say that a commit was pushed."""
        return self._add("commit", author, {"subject": subject, "oid": oid})

    def change_status(self, author: str, status: Status) -> Event:
        """Close, open again, or merge."""
        self.status = status
        return self._add("status-change", author, {"status": status})

    def rename(self, author: str, title: str) -> Event:
        """Give it another title."""
        data = {"from": self.title, "to": title}
        self.title = title
        return self._add("title-change", author, data)

    def as_json(self, repo: str) -> dict[str, Any]:
        """The discussion as lists of discussions give it."""
        return {
            "num": self.num,
            "title": self.title,
            "status": self.status,
            "createdAt": timestamp(self.num),
            "isPullRequest": self.is_pull_request,
            "author": {"name": self.author},
            "repo": {"name": repo, "type": "model"},
            "pinned": False,
            "numComments": len(self.comments),
        }

    def details(self, repo: str, conflicts: list[str]) -> dict[str, Any]:
        """The discussion with its events, as it is given alone."""
        found: Mapping[str, Any] = {}
        if self.is_pull_request:
            changes = {"base": "refs/heads/main"}
            if self.merge_commit:
                changes["mergeCommitId"] = self.merge_commit
            found = {"changes": changes, "filesWithConflicts": conflicts, "diff": ""}
        events = [event.as_json() for event in self.events]
        return {**self.as_json(repo), "events": events, **found}

    def _add(self, kind: Any, author: str, data: dict[str, Any]) -> Event:
        event = Event(
            id=f"{self.num:08x}{len(self.events):016x}", kind=kind, author=author, data=data
        )
        self.events.append(event)
        return event


def timestamp(second: int) -> str:
    """Seconds since 1970, or that many after the start of 2026, as the API writes time."""
    moment = second if second > 1_000_000_000 else 1_767_225_600 + second
    return datetime.fromtimestamp(moment, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
