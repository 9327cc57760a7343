"""The one place that makes the client of the Hub, and through which every call goes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from huggingface_hub import HfApi, constants, get_token
from huggingface_hub.errors import (
    FileMetadataError,
    HfHubHTTPError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
)

from hfconvert import __version__
from hfconvert.errors import UserError, raise_any
from hfconvert.hub.about import About, Act
from hfconvert.hub.failures import (
    FAILURES,
    MALFORMED,
    BrokenOffError,
    NetworkError,
    explain,
    find_cause,
    malformed,
)
from hfconvert.hub.publisher import publishes_to, stored_token, unfit
from hfconvert.hub.secrets import clean, clean_logs, without_password
from hfconvert.hub.waits import LONGEST_WAIT, REPETITIONS, asked_wait, backoff

T = TypeVar("T")
_REPEATED = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Client:
    """The Hub at an endpoint, for one account or for a stranger. The token is in no text of it."""

    endpoint: str = field(repr=False)
    signed_in: bool
    api: HfApi = field(repr=False)

    @property
    def site(self) -> str:
        """The endpoint as messages and pages name it, without a password."""
        return without_password(self.endpoint)

    def about(self, repo: str = "", act: Act = "read", revision: str = "", file: str = "") -> About:
        """What a call is about, for messages."""
        return About(
            repo=repo,
            act=act,
            revision=revision,
            file=file,
            endpoint=self.site,
            signed_in=self.signed_in,
        )

    def ask(self, about: About, call: Callable[[], T]) -> T:
        """Make a call that changes nothing; repeat it, after a wait, when the Hub or the network has trouble.

        UserError (exit 4, or 5 when the local disk is full) when it fails for good.
        """
        attempt = 0
        while True:
            try:
                return call()
            except MALFORMED as error:
                raise UserError(malformed(clean(repr(error)), about)) from error
            except FAILURES as error:
                wait = wait_before(error, attempt)
                if wait is None:
                    raise_told(error, about)
            time.sleep(wait)
            attempt += 1

    def once(self, about: About, call: Callable[[], T]) -> T:
        """Make a call that changes something: once. UserError (exit 4 or 5) when it fails."""
        with told(about):
            return call()


def connect(endpoint: str | None = None, token: str | None = None) -> Client:
    """The Hub of HF_ENDPOINT, with the token of HF_TOKEN or of `hf auth login`, where none is given.

    Also keeps transformers, in this process, from asking a bot to convert what it loads.
    """
    stored = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else stored_token()
    # Of a publisher's environment, a token that is not given would be that of the publisher.
    given = (token or stored or False) if publishes_to() else token
    return _client(endpoint, given, signed_in=bool(token or stored))


def connect_to_publish(repo: str, act: Act) -> Client:
    """The same for what is published: as a Trusted Publisher, where this environment is to be one.

    UserError (exit 4) where the Hub does not take it as one of this repository.
    """
    if not publishes_to() or constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
        return connect()
    client = _client(None, None, signed_in=True)
    about = client.about(repo, act)
    raise_any(unfit(repo, about))
    client.once(about, get_token)  # kept by huggingface_hub, and renewed before its hour is over
    return client


def can_sign_in() -> bool:
    """Whether there is a token to publish with, or an identity that may be exchanged for one. Asks nobody."""
    if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
        return False
    return bool(publishes_to() or stored_token())


def _client(endpoint: str | None, token: str | bool | None, *, signed_in: bool) -> Client:
    os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"
    clean_logs()
    url = (endpoint or os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")
    api = HfApi(endpoint=url, token=token, library_name="hfconvert", library_version=__version__)
    return Client(url, signed_in, api)


@contextmanager
def told(about: About) -> Iterator[None]:
    """Whatever the Hub, the network or the disk refuses within, as a UserError (exit 4 or 5)."""
    try:
        yield
    except MALFORMED as error:
        raise UserError(malformed(clean(repr(error)), about)) from error
    except FAILURES as error:
        raise_told(error, about)


def raise_told(error: Exception, about: About) -> NoReturn:
    """Raise the UserError that tells of a failure; what is no failure of Hub, network or disk as it is."""
    cause = find_cause(error)
    if cause is None:
        raise error
    raise UserError(explain(cause, about)) from None


def wait_before(error: Exception, attempt: int) -> float | None:
    """Seconds to wait before a call that changes nothing is repeated (`attempt` from 0); None: do not."""
    cause = find_cause(error)
    if cause is None or attempt >= REPETITIONS or not _may_repeat(cause, attempt):
        return None
    asked = asked_wait(cause.response.headers) if isinstance(cause, HfHubHTTPError) else None
    wait = backoff(attempt, asked)
    return wait if wait <= LONGEST_WAIT else None


def _may_repeat(cause: Exception, attempt: int) -> bool:
    if isinstance(cause, HfHubHTTPError):
        return cause.response.status_code in _REPEATED
    if isinstance(cause, (NetworkError, FileMetadataError, BrokenOffError)):
        return True
    # A whole transfer that failed within the client or hf_xet, which tried several times: once more.
    plain = isinstance(cause, OSError) and cause.errno is None
    hopeless = isinstance(cause, (OfflineModeIsEnabled, LocalTokenNotFoundError))
    return attempt == 0 and not hopeless and (plain or isinstance(cause, RuntimeError))
