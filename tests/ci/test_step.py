from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from hfconvert.ci import jobs
from hfconvert.ci.step import MOST_SECONDS
from hfconvert.errors import Exit
from hfconvert.proving.models import Allowed
from tests.ci.conftest import Step


def test_a_recipe_is_converted_and_everybody_told(step: Step, workspace: Path) -> None:
    done = step(recipe="recipe.yaml")
    assert (done.code, done.outputs["status"], done.outputs["verified"]) == (0, "converted", "true")
    assert json.loads(done.outputs["files"]) == [str(workspace / "out" / "weights.safetensors")]
    assert json.loads(Path(done.outputs["report"]).read_text())["status"] == "converted"
    assert done.summary.startswith("### hfconvert recipe.yaml\n\n**converted** `source`")
    assert done.said[0] == "::group::hfconvert recipe.yaml"


def outside(said: list[str]) -> list[str]:
    """The lines that the runner obeys where they look like commands."""
    found, word = [], ""
    for line in said:
        if word:
            word = "" if line == f"::{word}::" else word
        elif line.startswith("::stop-commands::"):
            word = line.removeprefix("::stop-commands::")
        else:
            found.append(line)
    assert not word
    return found


def test_all_that_holds_words_of_others_is_said_where_nothing_is_obeyed(
    step: Step, workspace: Path
) -> None:
    wrong = "version: 1\nsource: {path: source}\nkey_map: [{rename: {'::error::x*': y}}]\n"
    (workspace / "wrong.yaml").write_text(wrong)
    done = step(recipe="recipe.yaml\nwrong.yaml\n::error::z")
    assert "::error::x" in "\n".join(done.said)
    kinds = {line.split("::")[1].partition(" ")[0] for line in outside(done.said)}
    assert kinds == {"group", "endgroup", "error"}
    assert all(line.startswith("::") for line in outside(done.said))
    assert len(done.commands("group")) == len(done.commands("endgroup")) == 3


def test_two_recipes_that_would_go_to_one_repository_do_not_collide(
    step: Step, workspace: Path, environment: dict[str, str]
) -> None:
    for name in ("one", "two"):
        text = f"version: 1\nsource: {{path: source}}\nkey_map: [{{rename: {{b: {name}}}}}]\n"
        (workspace / f"{name}.yaml").write_text(f"{text}publish: {{repo: o/m}}\n")
    done = step(recipe="one.yaml\ntwo.yaml", GITHUB_EVENT_NAME="pull_request")
    assert done.outputs["status"] == "converted"
    first, second = map(Path, json.loads(done.outputs["files"]))
    assert first != second
    assert first.is_relative_to(environment["RUNNER_TEMP"])
    assert "nothing is published: the event file of pull_request" in done.commands("notice")[0]


def test_work_is_done_where_the_runner_wants_it(
    step: Step, environment: dict[str, str], tmp_path: Path
) -> None:
    done = step(recipe="recipe.yaml")
    temp = environment["RUNNER_TEMP"]
    assert tempfile.gettempdir() == environment["TMPDIR"] == temp
    assert environment["HF_HOME"] == f"{temp}/huggingface"
    assert Path(done.outputs["report"]).is_relative_to(temp)
    assert step(recipe="recipe.yaml").outputs["report"] != done.outputs["report"]


@pytest.mark.parametrize("name", ["HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"])
def test_a_cache_that_the_job_chose_stays(
    step: Step, environment: dict[str, str], name: str
) -> None:
    step(recipe="recipe.yaml", **{name: "/somewhere"})
    assert environment[name] == "/somewhere"
    assert environment.get("HF_HOME", "/somewhere") == "/somewhere"


@pytest.mark.parametrize(
    ("recipe", "fail_on", "code"),
    [
        ("wrong.yaml", "error", Exit.RECIPE),
        ("wrong.yaml", "warning", Exit.RECIPE),
        ("wrong.yaml", "never", Exit.OK),
        ("odd.yaml", "error", Exit.OK),
        ("odd.yaml", "warning", Exit.VALUES),
        ("odd.yaml", "never", Exit.OK),
        ("recipe.yaml", "warning", Exit.OK),
        ("truncated.yaml\nwrong.yaml", "error", Exit.SOURCE),
    ],
)
def test_what_fails_the_step(
    step: Step, workspace: Path, recipe: str, fail_on: str, code: Exit
) -> None:
    (workspace / "wrong.yaml").write_text("version: 2\n")
    odd = 'version: 1\nsource: {path: source}\nkey_map: [{drop: [b, "x*"]}]\noutput: {path: odd}\n'
    (workspace / "odd.yaml").write_text(odd)
    whole = (workspace / "source" / "weights.pt").read_bytes()
    (workspace / "truncated.pt").write_bytes(whole[: len(whole) // 2])
    (workspace / "truncated.yaml").write_text("version: 1\nsource: {path: truncated.pt}\n")
    assert step(recipe=recipe, fail_on=fail_on).code == code


def test_nothing_is_begun_when_the_time_of_the_job_is_nearly_over(
    step: Step, workspace: Path
) -> None:
    clock = itertools.chain([0.0, 10.0], itertools.repeat(MOST_SECONDS + 11.0))
    done = step(lambda: next(clock), recipe="recipe.yaml\nrecipe.yaml\nrecipe.yaml")
    assert (done.code, done.outputs["status"]) == (0, "deferred")
    reports = json.loads(Path(done.outputs["report"]).read_text())["reports"]
    assert [one["status"] for one in reports] == ["converted", "up-to-date", "deferred"]
    assert "deferred  recipe.yaml: the time of this job is nearly over; run it again" in done.said


def test_the_first_is_begun_whatever_the_time(step: Step) -> None:
    clock = itertools.count(0.0, 10 * MOST_SECONDS)
    assert step(lambda: next(clock), recipe="recipe.yaml").outputs["status"] == "converted"


def test_a_check_that_fails(step: Step, workspace: Path) -> None:
    torch.save({"w": torch.full((2,), 1e30)}, workspace / "source" / "weights.pt")
    done = step(recipe="recipe.yaml", set="dtype=float16")
    assert (done.code, done.outputs["status"], done.outputs["verified"]) == (1, "failed", "false")
    (said,) = done.commands("error")
    assert "title=hfconvert%3A dtypes" in said
    assert not (workspace / "out").exists()


def test_a_bug_of_ours_leaves_outputs_and_commands_off(
    step: Step,
    environment: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "load", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        step(recipe="recipe.yaml")
    assert "status" in Path(environment["GITHUB_OUTPUT"]).read_text()
    assert "failed" in Path(environment["GITHUB_OUTPUT"]).read_text()
    assert capsys.readouterr().err.splitlines()[-1].startswith("::stop-commands::")


def test_a_source_without_a_recipe(step: Step) -> None:
    assert step(source="./source", set="output.path=./x").outputs["status"] == "converted"


@pytest.mark.parametrize(
    ("event", "allow", "expected"),
    [("push", "true", True), ("push", "false", False), ("pull_request", "true", False)],
)
def test_code_of_repositories_needs_the_input_and_a_trusted_event(
    step: Step, monkeypatch: pytest.MonkeyPatch, event: str, allow: str, expected: bool
) -> None:
    allowed: list[Allowed] = []

    def run(recipe: object, console: object, given: Allowed) -> None:
        allowed.append(given)
        raise MemoryError

    monkeypatch.setattr("hfconvert.run.run", run)
    step(recipe="recipe.yaml", allow_remote_code=allow, GITHUB_EVENT_NAME=event)
    assert allowed == [Allowed(remote_code=expected)]


def test_the_token_is_masked_before_anything_is_said_and_goes_no_further(
    step: Step, environment: dict[str, str]
) -> None:
    done = step(recipe="recipe.yaml", token="hf_secret\n", HF_TOKEN="hf_ofthejob")
    assert done.said[:2] == ["::add-mask::hf_secret", "::add-mask::hf_ofthejob"]
    assert environment["HF_TOKEN"] == "hf_secret"
    assert "HFC_TOKEN" not in environment


def test_without_one_in_the_input_that_of_the_job_stays(
    step: Step, environment: dict[str, str]
) -> None:
    step(recipe="recipe.yaml", token="", HF_TOKEN="hf_ofthejob")
    assert environment["HF_TOKEN"] == "hf_ofthejob"
    assert "HF_OIDC_RESOURCE" not in environment


def test_a_strangers_step_has_no_token_whatsoever(step: Step, environment: dict[str, str]) -> None:
    names = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_ID_TOKEN", "HF_OIDC_RESOURCE")
    github = ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL")
    given = dict.fromkeys((*names, *github, "HFC_TOKEN"), "hf_x")
    done = step(recipe="recipe.yaml", GITHUB_EVENT_NAME="pull_request", **given)
    assert "hf_x" not in environment.values()
    assert environment["HF_HUB_DISABLE_IMPLICIT_TOKEN"] == "1"
    (said,) = done.commands("notice")
    assert said.startswith("::notice title=hfconvert::token ignored: the event file")


def test_a_stranger_without_a_token_needs_no_notice(step: Step) -> None:
    assert step(recipe="recipe.yaml", GITHUB_EVENT_NAME="pull_request").commands("notice") == []


@pytest.mark.parametrize("event", ["pull_request", "push"])
def test_a_strangers_recipe_leads_nowhere_else(
    step: Step, workspace: Path, tmp_path: Path, event: str
) -> None:
    (tmp_path / "secret").write_text("version: hunter2")
    (workspace / "linked.yaml").symlink_to(tmp_path / "secret")
    done = step(recipe="linked.yaml", GITHUB_EVENT_NAME=event)
    said = "\n".join(done.said)
    assert (done.code, done.outputs["status"]) == (2, "failed")
    assert ("outside of the repository" in said) == (event == "pull_request")
    assert ("hunter2" in said) == (event == "push")  # one's own links are one's own


def test_the_gate_judges_the_working_directory(step: Step, workspace: Path) -> None:
    done = step(mode="check")
    assert (done.code, done.outputs["status"], done.outputs["verified"]) == (1, "failed", "false")
    assert "pickle" in done.commands("error")[0]
    step(recipe="recipe.yaml", mode="run", set="output.path=source-safetensors")
    (workspace / "source" / "weights.pt").unlink()
    done = step(mode="check", recipe="", set="")
    assert (done.code, done.outputs["status"], done.outputs["verified"]) == (0, "verified", "true")
    assert done.summary.startswith("### hfconvert .\n\n**verified**")


def test_the_library_of_the_hub_is_not_loaded_before_tokens_are_settled() -> None:
    """It reads once, when it is imported, whether a stored token is to be used."""
    script = "import hfconvert.ci.step, sys; sys.exit('huggingface_hub' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_login_of_the_machine_is_found_where_it_was_stored(
    step: Step, environment: dict[str, str]
) -> None:
    step(recipe="recipe.yaml")
    stored = Path("~/.cache/huggingface/token").expanduser()
    assert environment["HF_TOKEN_PATH"] == str(stored)
