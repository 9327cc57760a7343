from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

ROOT = Path(__file__).parents[2]
VICTIM = Path(__file__).with_name("victim.py")
WORK = ".out.hfconvert"


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code or the signal that killed it, and how many acts it did."""

    code: int | None
    signal: int | None
    acts: int | None
    writes: int | None
    stdout: str
    stderr: str

    @property
    def killed(self) -> bool:
        return self.signal == signal.SIGKILL


class Victims:
    """Starts commands that are killed, interrupted or denied the disk at a chosen act."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(VICTIM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def __call__(self, cwd: Path, *arguments: str, **order: Any) -> Ended:
        """Run a command in a folder. `what` happens `at` an act: see victim.py."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        document = {"arguments": list(arguments), "cwd": str(cwd), **order}
        self._process.stdin.write(json.dumps(document) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="session")
def victims() -> Iterator[Victims]:
    started = Victims()
    yield started
    started.close()


def sums(folder: Path) -> dict[str, str]:
    """sha256 of every file below a folder; of the record of a run only its digest."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            if path.name == "hfconvert.json":
                content = json.loads(content)["digest"].encode()
            found[path.relative_to(folder).as_posix()] = hashlib.sha256(content).hexdigest()
    return found


def stamps(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Size, time and content of every file below a folder."""
    hashes = sums(folder)
    stats = {name: (folder / name).stat() for name in hashes}
    return {name: (one.st_size, one.st_mtime_ns, hashes[name]) for name, one in stats.items()}


def write_source(folder: Path, files: int, tensors: int, kilobytes: int) -> None:
    """A sharded safetensors source with side files, and a recipe beside it that renames and reshards."""
    source = folder / "source"
    (source / "sub").mkdir(parents=True)
    random = np.random.default_rng(9)
    weight_map: dict[str, str] = {}
    for number in range(1, files + 1):
        name = f"model-{number:05}-of-{files:05}.safetensors"
        state = {
            f"module.layer.{number}.{i}.weight": random.integers(
                0, 2**32, (kilobytes, 256), dtype=np.uint32
            )
            for i in range(tensors)
        }
        save_file(state, source / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(state, name)
    index = {"metadata": {}, "weight_map": weight_map}
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    (source / "config.json").write_text('{"model_type": "llama"}')
    (source / "sub" / "notes.txt").write_text("x" * 5000)
    recipe = {
        "version": 1,
        "source": {"path": "./source"},
        "key_map": [{"strip_prefix": ["module."]}],
        "output": {"path": "./out", "max_shard_size": f"{3 * kilobytes}KB"},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))


@dataclass(frozen=True)
class Scene:
    """A folder with a source and a recipe, and what an undisturbed run makes of them."""

    folder: Path
    before: dict[str, tuple[int, int, str]]
    result: dict[str, str]
    acts: int
    writes: int

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def work(self) -> Path:
        return self.folder / WORK

    def clear(self) -> None:
        """Remove what runs left."""
        for path in (self.out, self.work):
            shutil.rmtree(path, ignore_errors=True)

    def check_nothing_is_half_made(self) -> None:
        """The source is as it was, the output absent or complete, no final name holds another content."""
        assert stamps(self.folder / "source") == self.before
        if self.out.exists():
            assert sums(self.out) == self.result
        if self.work.exists():
            for name, found in sums(self.work).items():
                if name in self.result and name != "hfconvert.json":
                    assert found == self.result[name], name

    def check_complete(self) -> None:
        """The result is there, as an undisturbed run makes it, and nothing is left of the work."""
        assert sums(self.out) == self.result
        assert not self.work.exists()
        self.check_nothing_is_half_made()


MakeScene = Callable[[Path, int, int, int], Scene]


@pytest.fixture(scope="session")
def make_scene(victims: Victims) -> MakeScene:
    def make(folder: Path, files: int, tensors: int, kilobytes: int) -> Scene:
        write_source(folder, files, tensors, kilobytes)
        before = stamps(folder / "source")
        ended = victims(folder, "run", "recipe.yaml")
        assert ended.code == 0, ended.stderr
        assert ended.acts is not None
        assert ended.writes is not None
        scene = Scene(folder, before, sums(folder / "out"), ended.acts, ended.writes)
        assert sum(name.endswith(".safetensors") for name in scene.result) > 2
        scene.clear()
        return scene

    return make


@pytest.fixture(scope="session")
def small(make_scene: MakeScene, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Twelve megabytes in two files, to be cut into four shards of several writes each."""
    return make_scene(tmp_path_factory.mktemp("small"), 2, 6, 1000)


@pytest.fixture
def scene(small: Scene) -> Iterator[Scene]:
    """The small scene, with nothing left in it by others."""
    small.clear()
    yield small
    small.clear()
