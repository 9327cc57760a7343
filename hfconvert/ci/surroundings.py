"""What the environment of a job means for a run: tokens that count or do not, and where work is done."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from hfconvert.ci.files import unusable
from hfconvert.ci.inputs import Inputs, variable
from hfconvert.errors import UserError

_TOKENS = (variable("token"), "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_ID_TOKEN")
# With these a job may ask for a token of its own.
_IDENTITY = ("HF_OIDC_RESOURCE", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL")
_CACHES = ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME")


def secrets_of(environment: MutableMapping[str, str]) -> Iterator[str]:
    """Tokens that no log may show: that of the input, and the job's own."""
    for name in _TOKENS:
        if text := environment.get(name, "").strip():
            yield text


def sign_in(inputs: Inputs, environment: MutableMapping[str, str]) -> None:
    """Let the token of the input be the one of this process; without it, that of the job stays."""
    environment.pop(variable("token"), None)
    if inputs.token:
        environment["HF_TOKEN"] = inputs.token
    if inputs.oidc_resource:
        environment["HF_OIDC_RESOURCE"] = inputs.oidc_resource


def sign_out(environment: MutableMapping[str, str]) -> bool:
    """Take every token out of the environment and use none that is stored; whether there was one."""
    found = [environment.pop(name, "") for name in _TOKENS]
    for name in _IDENTITY:
        environment.pop(name, None)
    environment["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"  # noqa: S105 - a switch
    return any(found)


def work_in(environment: MutableMapping[str, str]) -> Path:
    """Do all work on the disk of RUNNER_TEMP; a new folder there for this use of the action.

    /tmp is memory on some runners. The cache moves there too, unless the job says where it is. UserError
    (exit 2) where it cannot be written.
    """
    temp = Path(environment.get("RUNNER_TEMP") or tempfile.gettempdir())
    try:
        place = Path(tempfile.mkdtemp(prefix="hfconvert-", dir=temp))
    except OSError as error:
        raise UserError(unusable("RUNNER_TEMP", str(temp), error)) from error
    environment["TMPDIR"] = tempfile.tempdir = str(temp)
    environment["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # a command has to begin a line
    if not any(environment.get(name) for name in _CACHES):
        stored = Path("~/.cache/huggingface/token").expanduser()
        environment.setdefault("HF_TOKEN_PATH", str(stored))
        environment["HF_HOME"] = str(temp / "huggingface")
    return place
