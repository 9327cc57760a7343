"""Workflow commands: lines that GitHub's runner obeys, escaped as it reads them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from hfconvert.console import Console

Kind = Literal["error", "warning", "notice"]

MOST_LETTERS = 4096  # of a message: the runner cuts there


def annotation(kind: Kind, message: str, **properties: str) -> str:
    """`::error file=...,line=...::message`; empty properties are left out, a long message is cut."""
    given = ",".join(f"{name}={_property(text)}" for name, text in properties.items() if text)
    short = message if len(message) <= MOST_LETTERS else f"{message[: MOST_LETTERS - 3]}..."
    return f"::{kind}{' ' if given else ''}{given}::{_data(short)}"


def mask(secret: str) -> Iterator[str]:
    """Commands after which no log shows the secret, nor a line of it."""
    yield from (f"::add-mask::{_data(line)}" for line in secret.splitlines() if line)


@contextmanager
def grouped(console: Console, title: str) -> Iterator[None]:
    """What is said within folds under a title."""
    console.command(f"::group::{_data(title)}")
    yield
    console.command("::endgroup::")


@contextmanager
def obeying_nothing(console: Console) -> Iterator[None]:
    """Nothing that is said within is a command, whatever names and texts of other people it holds.

    Commands stay off where an error leaves the block: what is said of it may hold such text too.
    """
    word = secrets.token_hex(16)
    console.command(f"::stop-commands::{word}")
    yield
    console.command(f"::{word}::")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
