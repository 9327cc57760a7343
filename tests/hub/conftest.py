"""A running Hub for a test, and the settings by which the real client finds it."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import HfApi, constants
from huggingface_hub.utils import _xet
from huggingface_hub.utils._http import close_session

from tests.hub.loopback.server import RunningHub


@pytest.fixture
def hub(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningHub]:
    """A Hub without repositories; the client in this process reaches it, with an empty cache of its own."""
    folder = tmp_path / "loopback"
    folder.mkdir()
    with contextlib.closing(RunningHub(folder)) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.endpoint)
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", running.endpoint)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_HOME", f"{running.endpoint}/")
        template = f"{running.endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        _xet.XET_CONNECTION_INFO_CACHE.clear()
        # huggingface_hub 2.4.0 uploads to LFS in a form that httpx2 deprecates
        warnings.filterwarnings("ignore", "Use 'content=", DeprecationWarning)
        yield running
        close_session()
    assert running.crashes == []


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, empty."""
    folder = tmp_path / "hub-cache"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setenv("HF_HUB_CACHE", str(folder))
    return folder


@pytest.fixture
def api(hub: RunningHub) -> Callable[..., HfApi]:
    """Make a real client: with a token of its own account `owner`, or with the one that is given."""

    def make(token: str | bool | None = None) -> HfApi:
        return HfApi(endpoint=hub.endpoint, token=hub.token() if token is None else token)

    return make


@pytest.fixture
def sign_in(hub: RunningHub, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make a token the one of this environment (HF_TOKEN), as users have it."""

    def use(token: str) -> None:
        monkeypatch.setenv("HF_TOKEN", token)
        monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "0")
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)

    return use


@pytest.fixture(params=["xet", "lfs"])
def transfer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which large files travel; the test runs once with each."""
    way = str(request.param)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", way == "lfs")
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1" if way == "lfs" else "0")
    return way


@pytest.fixture
def lfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files travel without Xet."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")


@pytest.fixture
def waits(hub: RunningHub, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long anything slept. Nobody really sleeps: the clock of the Hub's rate limits moves instead."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        hub.limits.wait(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    return slept


@pytest.fixture
def process_env(hub: RunningHub, tmp_path: Path) -> dict[str, str]:
    """The environment for another process whose client is to reach the Hub: a home and cache of its own."""
    home = tmp_path / "process-home"
    home.mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.endswith("_OFFLINE")}
    del kept["HF_HUB_DISABLE_IMPLICIT_TOKEN"]
    return {
        **kept,
        "HOME": str(home),
        "HF_HOME": str(home / "huggingface"),
        "HF_ENDPOINT": hub.endpoint,
    }
