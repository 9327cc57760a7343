from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hfconvert.quick import is_quick

ROOT = Path(__file__).parents[1]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
# Arguments: the way that is taken, then those of the command.
PROBE = """
import sys
way, *sys.argv[1:] = sys.argv[1:]
if way == "cli":
    from hfconvert.cli import main
else:
    from hfconvert.__main__ import main
code = main()
heavy = {"typer", "pydantic", "torch", "huggingface_hub", "yaml"} & set(sys.modules)
sys.stderr.write("modules " + " ".join(sorted(heavy)))
sys.exit(code)
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    torch.save({"w": torch.ones(2, 3)}, tmp_path / "m.pt")
    (tmp_path / "recipe.yaml").write_text("version: 1\nsource: {path: m.pt}\n")
    (tmp_path / "wrong.yaml").write_text("version: 1\nsuorce: {path: m.pt}\n")

    def call(way: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", PROBE, way, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    return call


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "m.pt"],
        ["inspect", "./m.pt", "--json"],
        ["inspect", "--json", "."],
        ["inspect", "m.pt", "-q"],
        ["inspect", "./nowhere"],
        ["inspect", "./nowhere", "--json", "-v"],
        ["plan", "m.pt"],
        ["plan", "recipe.yaml", "-v"],
        ["plan", "recipe.yaml", "--json"],
        ["plan", "./nowhere.yaml"],
        ["plan", "wrong.yaml", "--json"],
    ],
    ids=" ".join,
)
def test_both_ways_say_the_same(run: Run, arguments: list[str]) -> None:
    assert is_quick(arguments)
    light, full = run("quick", *arguments), run("cli", *arguments)
    assert (light.returncode, light.stdout) == (full.returncode, full.stdout)
    assert light.stderr.rpartition("modules")[0] == full.stderr.rpartition("modules")[0]


def test_the_light_way_loads_none_of_the_heavy_libraries(run: Run) -> None:
    done = run("quick", "inspect", "m.pt", "--json")
    assert json.loads(done.stdout)["kind"] == "model"
    assert done.stderr == "modules "
    done = run("quick", "plan", "recipe.yaml", "--json")
    assert json.loads(done.stdout)["outputs"][0]["tensors"] == 1
    assert done.stderr == "modules pydantic yaml"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["plan"],
        ["plan", "m.pt", "--output", "x"],
        ["run", "m.pt"],
        ["inspect"],
        ["inspect", ""],
        ["inspect", "--help"],
        ["inspect", "-h", "m.pt"],
        ["inspect", "a", "b"],
        ["inspect", "m.pt", "--jsn"],
        ["inspect", "--", "m.pt"],
        ["--json", "inspect", "m.pt"],
    ],
    ids=" ".join,
)
def test_everything_else_is_left_to_the_full_way(arguments: list[str]) -> None:
    assert not is_quick(arguments)


def test_a_mistake_is_told_as_ever(run: Run) -> None:
    done = run("quick", "inspect", "m.pt", "--jsn")
    assert done.returncode == 2
    assert "--jsn" in done.stderr
