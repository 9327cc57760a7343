"""What holds for every test: no network beyond 127.0.0.1, no Hub, no cache or token of the user."""

from __future__ import annotations

import ipaddress
import os
import socket
import tempfile
from typing import Any

import pytest
from hypothesis import settings

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "DISABLE_SAFETENSORS_CONVERSION": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "120",
    "OMP_NUM_THREADS": "1",  # workers of pytest-xdist share the cores
    "TOKENIZERS_PARALLELISM": "false",
}
SWEPT = (
    "HF_",
    "HUGGING_FACE_",
    "HUGGINGFACE_",
    "TRANSFORMERS_",
    "HFC_",
    "GITHUB_",
    "FORCE_COLOR",
    "CLICOLOR",
)


HOME = tempfile.TemporaryDirectory(prefix="hfconvert-home-")


def _sweep() -> None:
    for name in [name for name in os.environ if name.startswith(SWEPT)]:
        del os.environ[name]
    os.environ.update(OFFLINE, HOME=HOME.name, HF_HOME=f"{HOME.name}/huggingface")
    os.environ["XDG_CACHE_HOME"] = f"{HOME.name}/.cache"


# At import, not in a fixture: the libraries read these once, when a test module imports them.
_sweep()

settings.register_profile("fast", deadline=None, derandomize=True, database=None, max_examples=50)
settings.register_profile("slow", deadline=None, database=None, max_examples=5000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_unconfigure() -> None:
    """Remove the home that this process and those it started had."""
    HOME.cleanup()


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection that is not to this machine, and every look-up of another's name."""
    connect, connect_ex, getaddrinfo = (
        socket.socket.connect,
        socket.socket.connect_ex,
        socket.getaddrinfo,
    )

    def checked_connect(self: socket.socket, address: Any) -> None:
        _refuse_unless_local(self.family, address)
        connect(self, address)

    def checked_connect_ex(self: socket.socket, address: Any) -> int:
        _refuse_unless_local(self.family, address)
        return connect_ex(self, address)

    def checked_getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        _refuse_unless_local(socket.AF_INET, (host,))
        return getaddrinfo(host, *arguments, **options)

    monkeypatch.setattr(socket.socket, "connect", checked_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", checked_connect_ex)
    monkeypatch.setattr(socket, "getaddrinfo", checked_getaddrinfo)


def _refuse_unless_local(family: int, address: Any) -> None:
    if family == socket.AF_UNIX or _is_local(address[0]):
        return
    pytest.fail(f"a test reached for the network: {address!r}")


def _is_local(host: object) -> bool:
    if host is None or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False
