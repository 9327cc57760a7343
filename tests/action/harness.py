"""Run workflows that use the real `action.yml`, with act, without Docker and without a network.

act is not GitHub: it enforces no permissions and no limits, and gives steps a terminal. What GitHub does with
more than ten annotations or a summary of a mebibyte is held by `tests/ci`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
TOOLS = Path(sys.executable).parent  # hfconvert and act, as the tests are installed
ACTION = "owner/hfconvert@v1"
SETUP_PYTHON = "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97"
# What an action has to have so that `install: none` works.
SMALL = ("action.yml", ".ci/install-action")
TIMEOUT = 900  # seconds; a run takes a few, or minutes where packages are installed

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Said:
    """An annotation: `kind` is error, warning or notice; the place is empty where it has none."""

    kind: str
    message: str
    place: Mapping[str, str]


@dataclass(frozen=True)
class Ran:
    """What came of a run of act: its log, event by event, and the exit code."""

    code: int
    events: tuple[Event, ...]
    stderr: str
    extra: Any = field(default=None)

    def of(self, job: str, *step: str) -> tuple[Event, ...]:
        """The events of a step: `convert`, `one` for a step with an id, `0` for the first without."""
        return tuple(
            event
            for event in self.events
            if event.get("jobID") == job and list(step) == event.get("stepID", [])[: len(step)]
        )

    def result(self, job: str, *step: str) -> str:
        """`success` or `failure` of a step, else of a job."""
        key = "stepResult" if step else "jobResult"
        found = [event[key] for event in self.of(job, *step) if key in event and self._main(event)]
        assert found, f"{job} {step} did not run:\n{self.text}"
        return str(found[-1])

    def outputs(self, job: str, step: str) -> dict[str, str]:
        """What the action gives to later steps."""
        return {
            event["name"]: event["arg"]
            for event in self.of(job, step)
            if event.get("command") == "set-output" and event["stepID"] == [step]
        }

    def said(self, job: str, step: str) -> list[Said]:
        """The annotations of a step, in their order."""
        return [
            Said(event["command"], event["arg"], event["kvPairs"] or {})
            for event in self.of(job, step)
            if event.get("command") in ("error", "warning", "notice")
        ]

    def summary(self, job: str, step: str) -> str:
        """What the page of the run shows of the step."""
        found = [one["content"] for one in self.of(job, step) if one.get("command") == "summary"]
        return str(found[0]) if found else ""

    def log(self, job: str, *step: str) -> str:
        """The plain lines of a step."""
        return "".join(one["msg"] for one in self.of(job, *step) if one.get("raw_output"))

    @cached_property
    def text(self) -> str:
        """All that anybody can read, but for the commands that mask."""
        return "".join(
            json.dumps(one) + "\n" for one in self.events if one.get("command") != "add-mask"
        )

    @staticmethod
    def _main(event: Event) -> bool:
        return bool(event.get("stage", "Main") == "Main")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A run: the workflow, the files of the repository beside it, and what GitHub would know."""

    workflow: str
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    event: str = "push"
    payload: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    action: Path | None = None
    stubs: Mapping[str, Path] = field(default_factory=dict)


def run_act(asked: Asked, folder: Path, within: Sequence[str] | None = None) -> Ran:
    """Run the workflow in an empty folder.

    `within` is a command that runs the one behind it: by default one that leaves it no network.
    """
    workspace = _repository(asked, folder / "workspace")
    payload = folder / "event.json"
    payload.write_text(json.dumps(asked.payload))
    command = [
        *(str(TOOLS / "act"), asked.event, "--platform", "ubuntu-latest=-self-hosted", "--json"),
        *("--pull=false", "--action-offline-mode", "--no-cache-server"),
        *("--workflows", ".github/workflows/tested.yml", "--eventpath", str(payload)),
        *(f"--local-repository={name}={path}" for name, path in _local(asked, folder).items()),
        *(f"--secret={name}={value}" for name, value in asked.secrets.items()),
        *(f"--env={name}={value}" for name, value in asked.env.items()),
    ]
    done = subprocess.run(
        [*(cut_off() if within is None else within), *command],
        cwd=workspace,
        env=_environment(folder),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return Ran(done.returncode, tuple(_events(done.stdout)), done.stderr)


def run_once(make: Callable[[Path], Ran], name: str, factory: pytest.TempPathFactory) -> Ran:
    """A run in a folder of its own, by the first worker of pytest that needs it; the others wait for it."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    kept = shared / f"{name}.json"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            ran = make(factory.mktemp(name))
            kept.write_text(json.dumps([ran.code, ran.events, ran.stderr, ran.extra]))
    code, events, stderr, extra = json.loads(kept.read_text())
    return Ran(code, tuple(events), stderr, extra)


def small_action(folder: Path) -> Path:
    """The action alone, in a folder of its own: for `install: none`."""
    return _copied(folder, SMALL)


def whole_action(folder: Path) -> Path:
    """The action as its users check it out: every file that git tracks, as it is at this moment."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return _copied(folder, [name for name in tracked.stdout.split("\0") if name])


def _copied(folder: Path, names: Sequence[str]) -> Path:
    for name in names:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def _repository(asked: Asked, workspace: Path) -> Path:
    files = {".github/workflows/tested.yml": asked.workflow, **asked.files}
    for name, content in files.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    who = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run(["git", *who, *arguments], cwd=workspace, check=True)
    return workspace


def _local(asked: Asked, folder: Path) -> dict[str, Path]:
    stub = Path(__file__).parent / "stubs" / "setup-python"
    action = asked.action or small_action(folder / "action")
    return {ACTION: action, SETUP_PYTHON: stub, **asked.stubs}


def _environment(folder: Path) -> dict[str, str]:
    """Nothing of ours but where programs are: the environment of act leaks into steps."""
    home = folder / "home"
    home.mkdir()
    path = f"{TOOLS}{os.pathsep}/usr/local/bin{os.pathsep}/usr/bin{os.pathsep}/bin"
    return {
        "PATH": path,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "LANG": "C.UTF-8",
    }


def cut_off() -> tuple[str, ...]:
    """A command that runs another where there is no network but loopback; empty where that is not allowed."""
    namespace = (
        "unshare",
        "--map-root-user",
        "--net",
        "sh",
        "-c",
        'ip link set lo up; exec "$@"',
        "_",
    )
    allowed = shutil.which("unshare") and shutil.which("ip")
    if (
        not allowed
        or subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode
    ):
        return ()
    return namespace


def _events(log: str) -> Iterator[Event]:
    for line in log.splitlines():
        if line.startswith("{"):
            yield json.loads(line)
