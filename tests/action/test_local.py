"""The action on a repository of its own, without the Hub: one run of act, many jobs."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from tests.action.harness import Asked, Ran, Said, run_act, run_once

TOKEN = "hf_notinanylogofthisrun"
HOSTILE = ('"; touch PWNED; "', "$(touch PWNED)", "`touch PWNED`", "--opt", "a' || touch PWNED")

WORKFLOW = """\
on: push
permissions: {}
jobs:
  twice:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: first
        uses: owner/hfconvert@v1
        with: {recipe: recipe.yaml, install: none, token: "${{ secrets.token }}"}
      - id: second
        uses: owner/hfconvert@v1
        with: {recipe: recipe.yaml, install: none}
      - id: later
        shell: python
        env:
          STATUS: ${{ steps.first.outputs.status }}
          AGAIN: ${{ steps.second.outputs.status }}
          FILES: ${{ steps.first.outputs.files }}
          REPORT: ${{ steps.first.outputs.report }}
          REPORT_AGAIN: ${{ steps.second.outputs.report }}
          TOKEN: ${{ secrets.token }}
        run: |
          import json, os, pathlib
          given = os.environ
          report = json.loads(pathlib.Path(given["REPORT"]).read_text())
          files = [pathlib.Path(one) for one in json.loads(given["FILES"])]
          sizes = {one.name: one.stat().st_size for one in files}
          assert sizes == {one["file"]: one["size"] for one in report["outputs"]}
          assert given["REPORT"] != given["REPORT_AGAIN"] and os.path.exists(given["REPORT_AGAIN"])
          assert given["REPORT"].startswith(given["RUNNER_TEMP"])
          print("seen", given["STATUS"], given["AGAIN"], report["status"], sorted(sizes))
          print("the token is", given["TOKEN"])
  wrong:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: convert
        uses: owner/hfconvert@v1
        with: {recipe: recipes/wrong.yaml, install: none}
      - id: always
        if: always()
        run: echo "status ${{ steps.convert.outputs.status }}, ${{ steps.convert.outcome }}"
  inputs:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: convert
        uses: owner/hfconvert@v1
        with: {mode: chek, dry-run: yes, fail-on: never, install: none}
  dry:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: convert
        uses: owner/hfconvert@v1
        with: {recipe: recipe.yaml, dry-run: true, install: none}
      - run: test ! -e out
  several:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: convert
        uses: owner/hfconvert@v1
        with:
          install: none
          fail-on: never
          working-directory: recipes
          recipe: |
            ../recipe.yaml
            wrong.yaml
          set: |
            dtype=bfloat16
            output.max_shard_size=1GB
      - run: test -e out/model.safetensors
  source:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: convert
        uses: owner/hfconvert@v1
        with: {source: ./source, set: "output.path=./made", install: none}
      - run: test -e made/model.safetensors
  tokenless:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: convert
        uses: owner/hfconvert@v1
        with: {recipe: publish.yaml, install: none}
      - run: test "$(git status --porcelain)" = ""
  hostile:
    runs-on: ubuntu-latest
    strategy:
      max-parallel: 1
      matrix:
        text: MATRIX
    steps:
      - uses: actions/checkout@v4
      - id: recipe
        continue-on-error: true
        uses: owner/hfconvert@v1
        with: {recipe: "${{ matrix.text }}", install: none}
      - id: others
        continue-on-error: true
        uses: owner/hfconvert@v1
        with:
          install: none
          recipe: recipe.yaml
          set: ${{ matrix.text }}
          publish: ${{ matrix.text }}
          source: ${{ matrix.text }}
          working-directory: ${{ matrix.text }}
      - run: test ! -e PWNED
  injected:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: convert
        uses: owner/hfconvert@v1
        with: {recipe: injected.yaml, install: none}
""".replace("MATRIX", json.dumps(HOSTILE))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The one run of this module."""
    asked = Asked(workflow=WORKFLOW, files=files(), secrets={"token": TOKEN})
    return run_once(lambda folder: run_act(asked, folder), "local", tmp_path_factory)


def files() -> Mapping[str, str | bytes]:
    """A repository with a small model as a pickle, and recipes."""
    source = "source: {path: ./source}\n"
    return {
        "source/pytorch_model.bin": pickled({"a.weight": torch.ones(4, 4), "b": torch.ones(2)}),
        "source/config.json": '{"torch_dtype": "float32"}',
        "recipe.yaml": f"version: 1\n{source}output: {{path: ./out}}\n",
        "recipes/wrong.yaml": f"version: 1\n{source}\ndtype: float17\nkey_map:\n  - renam: {{a: b}}\n",
        "publish.yaml": f"version: 1\n{source}publish: {{repo: owner/m}}\n",
        "hostile/side\n::error::pwned.json": "{}",
        "hostile/model.bin": pickled(
            {"::error::pwned": torch.ones(2), "x\n::warning::pwned": torch.ones(2)}
        ),
        "injected.yaml": 'version: 1\nsource: {path: hostile}\nkey_map: [{drop: ["x*"]}]\n'
        "output: {path: out}\n",
    }


def pickled(state: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def test_a_later_step_uses_outputs_files_and_report(ran: Ran) -> None:
    assert ran.result("twice") == "success", ran.text
    seen = "seen converted up-to-date converted ['config.json', 'model.safetensors']"
    assert seen in ran.log("twice", "later")
    outputs = ran.outputs("twice", "first")
    assert (outputs["status"], outputs["verified"]) == ("converted", "true")
    assert outputs["pr-url"] == outputs["pr-number"] == outputs["revision"] == ""
    assert "| tensors | passed |" in ran.summary("twice", "first")
    assert ran.said("twice", "first") == []


def test_the_second_use_finds_the_result_of_the_first(ran: Ran) -> None:
    outputs = ran.outputs("twice", "second")
    assert (outputs["status"], outputs["verified"]) == ("up-to-date", "true")


def test_no_log_shows_the_token(ran: Ran) -> None:
    assert "the token is ***" in ran.log("twice", "later")
    assert TOKEN not in ran.text


def test_a_wrong_recipe_is_annotated_at_its_lines(ran: Ran) -> None:
    assert ran.result("wrong") == "failure"
    assert "status failed, failure" in ran.log("wrong", "always")
    said = ran.said("wrong", "convert")
    assert [(one.kind, one.place) for one in said] == [
        ("error", place("recipes/wrong.yaml", 4, 8)),
        ("error", place("recipes/wrong.yaml", 6, 5)),
    ]
    assert "float17" in said[0].message
    assert "rename" in said[1].message
    assert "float17" in ran.summary("wrong", "convert")


def test_wrong_inputs_are_said_all_at_once_and_fail_in_any_case(ran: Ran) -> None:
    assert ran.result("inputs") == "failure"
    assert ran.outputs("inputs", "convert")["status"] == "failed"
    starts = [one.message.partition(":")[0] for one in ran.said("inputs", "convert")]
    assert starts == ["mode", "dry-run"]


def test_a_dry_run_makes_nothing(ran: Ran) -> None:
    assert ran.result("dry") == "success"
    assert ran.outputs("dry", "convert")["status"] == "planned"


def test_of_several_recipes_each_is_done_and_the_worst_status_wins(ran: Ran) -> None:
    assert ran.result("several") == "success", ran.text
    outputs = ran.outputs("several", "convert")
    assert outputs["status"] == "failed"
    made = [Path(one).name for one in json.loads(outputs["files"])]
    assert made == ["model.safetensors", "config.json"]
    summary = ran.summary("several", "convert")
    assert "hfconvert ../recipe.yaml\n\n**converted**" in summary
    assert "hfconvert wrong.yaml\n\n**failed**" in summary
    assert ran.said("several", "convert")[0].place["file"] == "recipes/wrong.yaml"


def test_a_source_needs_no_recipe(ran: Ran) -> None:
    assert ran.result("source") == "success", ran.text
    assert ran.outputs("source", "convert")["status"] == "converted"


def test_without_a_token_the_result_is_proved_and_not_published(ran: Ran) -> None:
    assert ran.result("tokenless") == "success", ran.text
    outputs = ran.outputs("tokenless", "convert")
    assert (outputs["status"], outputs["verified"], outputs["pr-url"]) == ("converted", "true", "")
    (said,) = ran.said("tokenless", "convert")
    assert said.kind == "notice"
    assert said.message.startswith("owner/m: nothing is published: there is no token")


def test_hostile_inputs_run_nothing(ran: Ran) -> None:
    results = [one["jobResult"] for one in ran.of("hostile") if "jobResult" in one]
    assert results == ["success"] * len(HOSTILE)
    for step in ("recipe", "others"):
        ended = [one["arg"] for one in ran.of("hostile", step) if one.get("name") == "status"]
        assert set(ended) == {"failed"}


def test_names_in_files_are_no_commands(ran: Ran) -> None:
    assert ran.result("injected") == "success", ran.text
    assert "::warning::pwned" in ran.log("injected", "convert")
    commands = [one for one in ran.of("injected") if one.get("command") in ("error", "warning")]
    assert [one for one in commands if one["arg"].startswith("pwned")] == []


def place(file: str, line: int, column: int) -> dict[str, str]:
    return {"file": file, "line": str(line), "col": str(column), "title": "hfconvert: recipe"}


def test_the_harness_reads_annotations() -> None:
    event = {"jobID": "j", "stepID": ["s"], "command": "error", "arg": "m", "kvPairs": None}
    assert Ran(0, (event,), "").said("j", "s") == [Said("error", "m", {})]
