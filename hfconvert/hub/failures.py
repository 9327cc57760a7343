"""Why a call to the Hub failed, found beneath what the libraries raised, and what that means for a user."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from typing import Any

from huggingface_hub.errors import (
    FileMetadataError,
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
)

from hfconvert.errors import Problem, recipe_problem, resource_problem
from hfconvert.hub.about import About, hub_problem
from hfconvert.hub.publisher import OIDC_ERRORS, no_identity
from hfconvert.hub.refusals import SIGN_IN, refused
from hfconvert.hub.secrets import clean

# The base of all that the HTTP library raises: httpx before huggingface_hub 2, httpx2 since.
NetworkError: type[Exception] = HfHubHTTPError.__mro__[1]
# What calls to the Hub raise when something outside of this program fails.
FAILURES: tuple[type[Exception], ...] = (
    NetworkError,
    OSError,
    ValueError,
    RuntimeError,
    *OIDC_ERRORS,
)
# Looked for in this order, before all that libraries may raise of something else.
_CAUSES: tuple[type[Exception], ...] = (
    HfHubHTTPError,
    OfflineModeIsEnabled,
    NetworkError,
    HFValidationError,
    *OIDC_ERRORS,
)


class BrokenOffError(OSError):
    """What was asked for came in part, or its address is no longer good: asking again may help."""


# What the client raises over an answer that lacks what the Hub's have, or has it in another form.
MALFORMED = (AttributeError, KeyError, TypeError)

_FULL = (errno.ENOSPC, errno.EDQUOT)


def find_cause(error: Exception) -> Exception | None:
    """What really failed: libraries wrap it. None for what is no failure of Hub, network or disk."""
    chain = list(_chain(error))
    for kind in _CAUSES:
        for one in chain:
            if isinstance(one, kind):
                return one
    for one in chain:
        # hf_xet raises plain RuntimeErrors; text that is no JSON comes from a proxy or a login page
        if isinstance(one, (OSError, RuntimeError, json.JSONDecodeError)):
            return one
    return None


def explain(cause: Exception, about: About) -> Problem:
    """What a failure means: exit 4, or 5 when the local disk is full, or 2 when the name is impossible."""
    for kind, words in _WORDS:
        if isinstance(cause, kind):
            return words(cause, about)
    return _broken_off(cause, about)


def malformed(how: str, about: About) -> Problem:
    """What answers is no Hub: its answer has another form than the Hub's."""
    return hub_problem(
        about,
        f"the answer is not one of the Hub: {how}",
        why="a proxy or a login page answers in its place, or HF_ENDPOINT is something else",
        do=f"look at what answers at {about.endpoint}",
    )


def _impossible(cause: Exception, about: About) -> Problem:
    return recipe_problem(
        f"{about.repo} is not the id of a repository",
        why=clean(str(cause)),
        do="write org/name as the Hub shows it",
    )


def _offline(_cause: Exception, about: About) -> Problem:
    return hub_problem(
        about,
        "the Hub is not asked: HF_HUB_OFFLINE is set",
        why="the environment says that there is no network",
        do="unset HF_HUB_OFFLINE, or name a local path",
    )


def _no_token(_cause: Exception, about: About) -> Problem:
    return hub_problem(about, "this takes a token", why="none was found", do=SIGN_IN)


def _local(cause: OSError, about: About) -> Problem:
    if cause.errno in _FULL:
        return resource_problem(
            "the disk is full",
            why=f"{cause.filename or 'the cache'} has no room for what is downloaded",
            do="free some space, or set HF_HOME to a larger disk",
            subject=about.subject,
        )
    if cause.errno is not None:
        return resource_problem(
            f"{cause.filename or 'the cache'} cannot be used: {cause.strerror}",
            why="the cache of huggingface_hub is not writable, or its disk fails",
            do="mend it, or set HF_HOME to another folder",
            subject=about.subject,
        )
    return _broken_off(cause, about)


def _unreachable(cause: Exception, about: About) -> Problem:
    words = clean(str(cause)) or type(cause).__name__
    return hub_problem(
        about,
        f"{about.endpoint} cannot be reached, or broke off: {words}",
        why="the network, a proxy or a firewall is in the way, or the Hub is down",
        do="check the connection (HF_ENDPOINT, HTTPS_PROXY), then run again",
    )


def _broken_off(cause: Exception, about: About) -> Problem:
    return hub_problem(
        about,
        f"the transfer failed: {clean(str(cause)) or type(cause).__name__}",
        why="the connection broke off, or what arrived was not what was announced",
        do="run again; HF_HUB_DISABLE_XET=1 takes the plain way",
    )


def _no_hub(_cause: Exception, about: About) -> Problem:
    return hub_problem(
        about,
        f"what answered at {about.endpoint} is no Hub",
        why="a proxy or a login page stands in between, or HF_ENDPOINT is wrong",
        do="check HF_ENDPOINT and HTTPS_PROXY, then run again",
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


# Subclasses stand before their classes.
_WORDS: tuple[tuple[type[Exception], Callable[[Any, About], Problem]], ...] = (
    (HfHubHTTPError, refused),
    (HFValidationError, _impossible),
    *((kind, no_identity) for kind in OIDC_ERRORS),
    (OfflineModeIsEnabled, _offline),
    (LocalTokenNotFoundError, _no_token),
    (FileMetadataError, _no_hub),
    (json.JSONDecodeError, _no_hub),
    (NetworkError, _unreachable),
    (OSError, _local),
)
