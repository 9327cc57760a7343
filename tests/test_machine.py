from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from hfconvert import __version__, machine
from hfconvert.machine import peak_memory_bytes, versions


def test_versions_are_those_of_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "sys", type("sys", (), {"modules": {"torch": object()}}))
    found = versions()
    assert found["python"] == platform.python_version()
    assert found["hfconvert"] == __version__
    assert found["safetensors"] == metadata.version("safetensors")
    assert found["torch"] == metadata.version("torch")
    assert "transformers" not in found


def test_a_library_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "huggingface_hub":
            raise metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(machine, "version", version)
    found = versions()
    assert "huggingface_hub" not in found
    assert found["numpy"] == "1"


def test_the_peak_is_of_this_process_and_only_grows() -> None:
    before = peak_memory_bytes()
    assert before > 10 << 20
    held = bytearray(64 << 20)
    held[::4096] = b"x" * len(held[::4096])
    assert peak_memory_bytes() >= before


def test_where_there_is_no_proc_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any, **__: Any) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", absent)
    assert peak_memory_bytes() > 10 << 20
