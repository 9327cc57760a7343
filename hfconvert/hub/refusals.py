"""What refusals of the Hub mean, in three beats: by status and error code, else by its words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from hfconvert.errors import Problem
from hfconvert.hub.about import About, Act, hub_problem
from hfconvert.hub.publisher import EXCHANGE, not_trusted
from hfconvert.hub.secrets import clean
from hfconvert.hub.waits import asked_wait

SIGN_IN = "set HF_TOKEN, or run `hf auth login`"
_OFF = re.compile(r"(discussions|pull requests).*(disabled|turned off)", re.IGNORECASE)
_FULL = re.compile(r"storage.*(limit|quota|exceed|full)|quota.*exceed", re.IGNORECASE)
_TOO_LARGE = re.compile(r"larger than \d+ ?Mi?B", re.IGNORECASE)
_RIGHTS: dict[Act, str] = {
    "read": "read it: a fine-grained token must list the repository with the right to read",
    "propose": "open pull requests: a read token cannot; a fine-grained one needs discussion.write",
    "write": "commit to it: that takes a write token of an account with the role for it",
    "create": "make repositories there: that takes a write token and a role in the organisation",
    "sign in": "do this",
}


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer that was no success: what it was about, its status, the Hub's words, the wait it asks for."""

    about: About
    status: int
    said: str
    wait: float | None

    def problem(self, what: str, *, why: str, do: str) -> Problem:
        """The problem, with the status behind what happened."""
        return hub_problem(self.about, f"{what} ({self.status})", why=why, do=do)


def refused(error: HfHubHTTPError, about: About) -> Problem:
    """What an answer of the Hub means that was no success."""
    status, headers = error.response.status_code, error.response.headers
    if error.response.url.path == EXCHANGE and status < 500:
        return not_trusted(status, _json(error), about)
    refusal = Refused(about, status, clean(error.server_message or ""), asked_wait(headers))
    for kind, explain in _BY_KIND:
        if isinstance(error, kind):
            return explain(refusal)
    if status in (402, 403, 413, 507) and _FULL.search(refusal.said):
        return _storage_full(refusal)
    return _BY_STATUS.get(status, _trouble if status >= 500 else _other)(refusal)


def _json(error: HfHubHTTPError) -> object:
    try:
        return error.response.json()
    except ValueError:
        return None


def _gated(it: Refused) -> Problem:
    if not it.about.signed_in:
        return it.problem(
            "the repository is gated",
            why="its owner wants to know who reads it, and no token was given",
            do=f"ask for access at {it.about.page}, then {SIGN_IN}",
        )
    return it.problem(
        "the repository is gated, and this account has no access",
        why=it.said or "access was not asked for, or is not granted yet",
        do=f"ask for access at {it.about.page}; a fine-grained token needs the right to gated ones",
    )


def _absent(it: Refused) -> Problem:
    if not it.about.signed_in:
        why = "there is no such repository, or it is private: no token was given"
        do = f"correct the name; for a private one, {SIGN_IN}"
    else:
        why = "there is no such repository, or it is private and this token may not see it"
        do = (
            "correct the name; a fine-grained token must list the repository with the right to read"
        )
    return it.problem("the repository was not found", why=why, do=do)


def _no_revision(it: Refused) -> Problem:
    return it.problem(
        "the repository has no such revision",
        why="the branch, tag or commit is misspelt, or was deleted",
        do=f"choose one of {it.about.page}/tree/main, or leave the revision out",
    )


def _no_file(it: Refused) -> Problem:
    return it.problem(
        "this was not found",
        why="the name is misspelt, or it is not there at this revision",
        do=f"look at {it.about.page}/tree/{it.about.revision or 'main'}",
    )


def _disabled(it: Refused) -> Problem:
    return it.problem(
        "the Hub has disabled this repository",
        why="it was reported, or breaks the rules of the Hub",
        do=f"see {it.about.page}; nothing can be done from here",
    )


def _bad_token(it: Refused) -> Problem:
    if not it.about.signed_in:
        return it.problem("this takes a token", why="strangers may not do this", do=SIGN_IN)
    return it.problem(
        "the Hub does not accept the token",
        why="HF_TOKEN, or the token that `hf auth login` stored, is expired, revoked or misspelt",
        do=f"make a new one at {it.about.endpoint}/settings/tokens, then {SIGN_IN}",
    )


def _forbidden(it: Refused) -> Problem:
    if _OFF.search(it.said):
        return it.problem(
            "its owner has turned pull requests off",
            why=it.said,
            do="ask the owner to turn them on, or publish to a repository of your own: publish.repo",
        )
    words = f"; the Hub says: {it.said}" if it.said else ""
    return it.problem(
        "this token may not do that",
        why=f"it has no right to {_RIGHTS[it.about.act]}{words}",
        do=f"make a token with that right at {it.about.endpoint}/settings/tokens, then {SIGN_IN}",
    )


def _conflict(it: Refused) -> Problem:
    return it.problem(
        "the Hub reports a conflict",
        why=it.said or "something else changes the same thing at this moment",
        do="run again; what was done already is found again",
    )


def _moved_on(it: Refused) -> Problem:
    return it.problem(
        "somebody committed to the repository meanwhile",
        why=it.said or "the commit that this work began from is no longer the newest",
        do="run again: the newest commit is then the source",
    )


def _no_range(it: Refused) -> Problem:
    return it.problem(
        "the Hub has no such part of the file",
        why="the file is shorter than the Hub's record says, or was replaced meanwhile",
        do="run again; if it persists, the file has to be uploaded anew",
    )


def _rejected(it: Refused) -> Problem:
    if not _TOO_LARGE.search(it.said):
        return _other(it)
    return it.problem(
        "a file is too large to be stored without LFS",
        why=it.said,
        do="track the file with LFS in the repository's .gitattributes, then run again",
    )


def _storage_full(it: Refused) -> Problem:
    return it.problem(
        "the Hub has no room for this",
        why=it.said,
        do=f"free storage of {it.about.repo.partition('/')[0]}, or publish to another account",
    )


def _too_many(it: Refused) -> Problem:
    when = f"in {it.wait:.0f} seconds" if it.wait is not None else "in a few minutes"
    more = "" if it.about.signed_in else "; with a token the limit is higher"
    return it.problem(
        "too many requests",
        why="the Hub limits requests by account and address, and long bulk work meets that limit",
        do=f"run again {when}{more}",
    )


def _trouble(it: Refused) -> Problem:
    return it.problem(
        "the Hub has trouble",
        why=it.said or "the fault is at its end",
        do="run again later; https://status.huggingface.co says how it is",
    )


def _other(it: Refused) -> Problem:
    return it.problem(
        "the Hub refused this",
        why=it.said or "it gave no reason",
        do="mend what it names, or run again later",
    )


_Explain = Callable[[Refused], Problem]
# Subclasses stand before their classes.
_BY_KIND: tuple[tuple[type[HfHubHTTPError], _Explain], ...] = (
    (GatedRepoError, _gated),
    (RepositoryNotFoundError, _absent),
    (RevisionNotFoundError, _no_revision),
    (RemoteEntryNotFoundError, _no_file),
    (DisabledRepoError, _disabled),
)
_BY_STATUS: dict[int, _Explain] = {
    400: _rejected,
    401: _bad_token,
    403: _forbidden,
    404: _no_file,
    409: _conflict,
    412: _moved_on,
    416: _no_range,
    429: _too_many,
}
