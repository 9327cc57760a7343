"""What hfconvert says in pull requests: one comment, edited and never repeated; and why it closes one.

The pull request stands whether or not this works: what cannot be said is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from hfconvert.errors import UserError
from hfconvert.findings import Finding, warning
from hfconvert.hub.about import About
from hfconvert.hub.client import Client
from hfconvert.hub.earlier import Proposal, comments_of
from hfconvert.hub.marker import Marker, read_marker
from hfconvert.hub.secrets import without_password
from hfconvert.hub.target import Target

TRY_IT = Marker(comment="try-it")
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Discussion:
    """A discussion or pull request, and the account that speaks in it."""

    client: Client
    repo: str
    num: int
    author: str

    @property
    def about(self) -> About:
        """What a comment is about, for messages."""
        return self.client.about(self.repo, "propose")


def say(place: Discussion, text: str, mark: Marker) -> str:
    """As `put_comment`, again where it fails: each time by what stands there then."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(UserError):
            return put_comment(place, text, mark)
    return put_comment(place, text, mark)


def put_comment(place: Discussion, text: str, mark: Marker) -> str:
    """Let one comment of ours with that mark stand there, with this text; its address.

    It is posted, or edited where it stands already; where both are the same, nothing is sent. UserError
    (exit 4) where the Hub refuses.
    """
    client, repo, num = place.client, place.repo, place.num
    whole = f"{text.rstrip()}\n\n{mark.as_comment()}"
    details = client.ask(place.about, lambda: client.api.get_discussion_details(repo, num))
    own = (one for one in comments_of(details)[1:] if one.author == place.author)
    known = next((one for one in own if read_marker(one.content) == mark), None)
    if known is None:
        known = client.once(place.about, lambda: client.api.comment_discussion(repo, num, whole))
    elif known.content.strip() != whole:
        edit = partial(client.api.edit_discussion_comment, repo, num, known.id, whole)
        client.once(place.about, edit)
    return f"{without_password(details.url)}#{known.id}"


def say_once(target: Target, num: int, text: str) -> tuple[Finding, ...]:
    """Let the comment that says how to try a pull request stand there once, with this text."""
    return _attempt(num, "the comment was not posted", partial(_comment, target, num, text))


def supersede(target: Target, stale: Iterable[Proposal], num: int) -> tuple[Finding, ...]:
    """Close pull requests of ours that another one takes the place of, each with a pointer to it."""
    return tuple(
        finding
        for one in stale
        for finding in _attempt(
            one.num, "it was not closed", partial(close_for, target, one.num, num)
        )
    )


def close_for(target: Target, num: int, by: int) -> None:
    """Close a pull request, with a pointer to the one that took its place."""
    close(target, num, f"Superseded by #{by}.\n\n{Marker(superseded_by=by).as_comment()}")


def close(target: Target, num: int, comment: str) -> None:
    """Close a pull request with a comment."""
    api = target.client.api
    target.client.once(
        target.about,
        lambda: api.change_discussion_status(target.repo, num, "closed", comment=comment),
    )


def _comment(target: Target, num: int, text: str) -> None:
    put_comment(Discussion(target.client, target.repo, num, target.account.name), text, TRY_IT)


def _attempt(num: int, what: str, act: Callable[[], None]) -> tuple[Finding, ...]:
    """Act, again where it fails: each time by what stands there then."""
    said = ""
    for _ in range(_ATTEMPTS):
        try:
            act()
        except UserError as error:
            said = error.problems[0].what
        else:
            return ()
    hint = "the pull request stands all the same"
    return (warning("publish", f"#{num}", f"{what}: {said}", hint),)
