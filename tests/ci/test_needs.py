"""Which recipes bring torch into the environment of the action."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hfconvert.ci.needs import extra
from hfconvert.cli import app

Ask = Callable[..., str]

PLAIN = "version: 1\nsource: {path: ./source}\n"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Ask for a recipe and inputs."""
    monkeypatch.chdir(tmp_path)

    def ask(text: str, **inputs: str) -> str:
        (tmp_path / "r.yaml").write_text(text)
        given = {f"HFC_{name.upper()}": value for name, value in inputs.items()}
        return extra({"HFC_RECIPE": "r.yaml", **given})

    return ask


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", ""),
        ("key_map: [{rename: {a: b}}, {family: {name: gpt2-conv1d}}]\n", ""),
        ("dtype: {default: keep, rules: {a: keep}}\n", ""),
        ("dtype: bfloat16\nvalidate: {logits: off}\n", ""),
        ("dtype: bfloat16\n", "models"),
        ("dtype: {rules: {a: float32}}\n", "models"),
        ("lora: {adapters: [{adapter: ./a}]}\n", "models"),
        ("lora: {adapters: [{adapter: ./a}]}\nvalidate: {logits: off}\n", "models"),
        ("key_map: [{family: {name: hf-v4-v5}}]\n", "models"),
        ("validate: {logits: {min_cosine: 0.9}}\n", "models"),
        ("validate: {reference: ./golden.npz}\n", "models"),
        ("validate: {trust_remote_code: true}\n", "models"),
        ("dtype: float17\n", ""),
    ],
)
def test_a_recipe_needs_models_or_nothing(asked: Ask, more: str, expected: str) -> None:
    assert asked(PLAIN + more) == expected


def test_inputs_count_too(asked: Ask) -> None:
    assert asked(PLAIN, set="dtype=bfloat16") == "models"
    assert asked("version: 1\ndtype: bfloat16\n", source="o/m") == "models"
    assert asked(PLAIN + "dtype: bfloat16\n", mode="check") == ""
    assert asked(PLAIN + "dtype: bfloat16\n", mode="chek") == ""


@pytest.mark.parametrize(("dtype", "said"), [("bfloat16", "models\n"), ("keep", "\n")])
def test_the_command_says_it_on_stdout(
    asked: Ask, monkeypatch: pytest.MonkeyPatch, dtype: str, said: str
) -> None:
    asked(PLAIN)
    for name, value in {"HFC_RECIPE": "r.yaml", "HFC_SET": f"dtype={dtype}"}.items():
        monkeypatch.setenv(name, value)
    answered = CliRunner().invoke(app, ["ci", "--needs"])
    assert (answered.exit_code, answered.stdout) == (0, said)


def test_no_other_file_is_looked_at_and_nobody_asked(asked: Ask) -> None:
    assert asked(PLAIN, recipe="org/name\n./source\nr.yaml") == ""
    assert asked(PLAIN, recipe="", source="org/name") == ""
