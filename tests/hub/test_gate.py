"""The team rule over a repository: by ranges; weights are fetched where values are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.console import Console
from hfconvert.gate import check
from hfconvert.init import init
from hfconvert.inspect.facts import inspect_files
from hfconvert.recipe import parse
from hfconvert.report.documents import report_document
from hfconvert.run import run
from hfconvert.sourcing import list_what
from tests.hub.loopback.server import RunningHub
from tests.written_files import content_of

Push = Callable[[Mapping[str, Any]], None]


@pytest.fixture
def push(hub: RunningHub, monkeypatch: pytest.MonkeyPatch) -> Push:
    """Make `owner/m` with these files, or add them."""
    monkeypatch.setenv("HF_TOKEN", hub.token())

    def call(files: Mapping[str, Any]) -> None:
        contents = {name: content_of(name, content) for name, content in files.items()}
        if "owner/m" in hub.repos:
            hub.push("owner/m", contents)
        else:
            hub.repo("owner/m", contents)
        hub.log.clear()

    return call


@pytest.fixture
def state() -> dict[str, torch.Tensor]:
    """4 MB of weights."""
    torch.manual_seed(0)
    return {name: torch.randn(512, 1024) for name in "ab"}


def broken(report: Any) -> set[str]:
    return {one.name for one in report.checks if one.status == "fail"}


def test_pickles_alone_are_found_without_fetching_them(
    hub: RunningHub, push: Push, state: dict[str, torch.Tensor]
) -> None:
    push({"sub/pytorch_model.bin": state, "config.json": {}})
    report = check("owner/m", None, Console(-1))

    assert broken(report) == {"format"}
    document = report_document(report)
    assert document["source"]["repo"] == "owner/m"
    assert document["source"]["commit"] == hub.repos["owner/m"].head.id
    assert [one["file"] for one in document["source"]["files"]] == ["sub/pytorch_model.bin"]
    assert hub.log.sent() < 600_000


def test_a_conversion_in_a_repository_is_compared(
    push: Push, state: dict[str, torch.Tensor]
) -> None:
    push({"sub/pytorch_model.bin": state, "sub/model.safetensors": state})
    assert broken(check("owner/m", None, Console(-1))) == set()

    push({"sub/model.safetensors": {**state, "b": state["b"] + 1}})
    assert broken(check("owner/m", None, Console(-1))) == {"proof"}


def test_a_revision_is_judged_as_it_was(hub: RunningHub, push: Push) -> None:
    push({"model.safetensors": {"a": torch.ones(2)}})
    before = hub.repos["owner/m"].head.id
    push({"extra.bin": {"x": torch.ones(3)}})

    assert broken(check(f"owner/m@{before}", None, Console(-1))) == set()
    assert broken(check("owner/m", None, Console(-1))) == {"proof"}


def test_a_pull_request_of_the_hub_is_judged_and_inspected(
    hub: RunningHub,
    push: Push,
    state: dict[str, torch.Tensor],
    sign_in: Callable[[str], None],
) -> None:
    push({"pytorch_model.bin": state, "config.json": {"torch_dtype": "float32"}})
    sign_in(hub.token())
    text = "version: 1\nsource: {repo: owner/m}\npublish: {how: pull_request}\n"
    run(parse(text, "recipe.yaml"), Console(-1))

    assert broken(check("owner/m", None, Console(-1))) == {"format"}
    assert broken(check("owner/m@refs/pr/1", None, Console(-1))) == set()
    assert inspect_files(list_what("owner/m@refs/pr/1"))["format"] == "safetensors"
    assert "revision: refs/pr/1" in init("owner/m@refs/pr/1", Path())


def test_a_record_is_held_against_what_the_hub_records(
    hub: RunningHub, push: Push, state: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    push({"pytorch_model.bin": state, "config.json": {"torch_dtype": "float32"}})
    settings = [f"output.path={tmp_path / 'out'}"]
    run(parse("version: 1\nsource: {repo: owner/m}\n", "recipe.yaml", settings), Console(-1))
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    hub.repo("owner/converted", made)
    hub.log.clear()

    assert broken(check("owner/converted", None, Console(-1))) == set()
    assert hub.log.sent() < 600_000
    other = content_of("model.safetensors", {**state, "b": state["b"] + 1})
    hub.push("owner/converted", {"model.safetensors": other})
    assert broken(check("owner/converted", None, Console(-1))) == {"proof"}


def test_a_recipe_that_publishes_elsewhere_is_held_against_that_repository(
    hub: RunningHub,
    push: Push,
    state: dict[str, torch.Tensor],
    sign_in: Callable[[str], None],
) -> None:
    push({"pytorch_model.bin": state, "config.json": {"torch_dtype": "float32"}})
    sign_in(hub.token())
    text = "version: 1\nsource: {repo: owner/m}\npublish: {how: commit, repo: owner/converted}\n"
    recipe = parse(text, "recipe.yaml")
    run(recipe, Console(-1))

    assert broken(check("owner/m", recipe, Console(-1))) == set()
    other = content_of("model.safetensors", {**state, "b": state["b"] + 1})
    hub.push("owner/converted", {"model.safetensors": other})
    assert broken(check("owner/m", recipe, Console(-1))) == {"recipe"}


def test_a_recipe_that_publishes_to_its_source_leaves_the_judging_to_the_other_rules(
    push: Push, state: dict[str, torch.Tensor]
) -> None:
    push({"pytorch_model.bin": state})
    recipe = parse(
        "version: 1\nsource: {repo: owner/m}\npublish: {how: pull_request}\n", "recipe.yaml"
    )
    report = check("owner/m", recipe, Console(-1))

    assert broken(report) == {"format"}
    assert {one.name: one.status for one in report.checks}["recipe"] == "skipped"
