from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hfconvert.ci.jobs import Outcome
from hfconvert.ci.outputs import MOST_FILES, NAMES, STATUSES, outputs_of, worst, write_report
from hfconvert.errors import Exit

ROOT = Path(__file__).parent.parent.parent


def outcome(status: str = "converted", **document: Any) -> Outcome:
    empty: dict[str, Any] = {"publish": None, "checks": [], "output": None, "outputs": []}
    return Outcome("r.yaml", {"status": status, **empty, **document}, "", Exit.OK)


def check(name: str, status: str = "pass", **measured: float) -> dict[str, Any]:
    return {"name": name, "status": status, "measured": measured}


def published(number: int | None, commit: str) -> dict[str, Any]:
    url = f"https://hub/o/m/discussions/{number}" if number else None
    return {"repo": "o/m", "pr_url": url, "pr_number": number, "commit": commit}


def test_action_yml_declares_what_is_given() -> None:
    declared = yaml.safe_load((ROOT / "action.yml").read_text())["outputs"]
    assert [*declared] == [*NAMES] == [*outputs_of((), "")]
    for name, output in declared.items():
        assert output["value"] == f"${{{{ steps.hfconvert.outputs.{name} }}}}"
    assert all(f"`{status}`" in declared["status"]["description"] for status in STATUSES)


def test_before_anything_is_known_it_failed() -> None:
    empty = dict.fromkeys(NAMES, "")
    assert outputs_of((), "") == {**empty, "status": "failed", "files": "[]"}


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["converted"], "converted"),
        (["up-to-date", "converted", "up-to-date"], "converted"),
        (["converted", "skipped"], "skipped"),
        (["deferred", "skipped"], "deferred"),
        (["deferred", "failed", "converted"], "failed"),
    ],
)
def test_the_worst_status_wins(statuses: list[str], expected: str) -> None:
    assert worst(outcome(one) for one in statuses) == expected


def test_what_was_published() -> None:
    one = outputs_of([outcome(publish=published(3, "c0ffee"))], "r")
    assert one["pr-url"] == "https://hub/o/m/discussions/3"
    assert (one["pr-number"], one["revision"], one["report"]) == ("3", "refs/pr/3", "r")
    several = [outcome(publish=published(3, "a")), outcome(), outcome(publish=published(None, "b"))]
    assert outputs_of(several, "")["revision"] == "refs/pr/3\nb"
    assert outputs_of(several, "")["pr-number"] == "3"


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        ([[check("names"), check("tensors"), check("logits", "skipped")]], "true"),
        ([[check("names"), check("tensors", "fail")]], "false"),
        ([[check("names")]], ""),
        ([[]], ""),
        ([[check("tensors")], [check("tensors")]], "true"),
        ([[check("tensors")], [check("tensors", "fail")]], "false"),
        ([[check("tensors")], []], ""),
    ],
)
def test_what_was_verified(checks: list[list[dict[str, Any]]], expected: str) -> None:
    outcomes = [outcome(checks=one) for one in checks]
    assert outputs_of(outcomes, "")["verified"] == expected


def test_a_judgement_that_passed_is_verified() -> None:
    assert outputs_of([outcome("verified", checks=[check("format")])], "")["verified"] == "true"


def test_figures_are_the_worst_of_all() -> None:
    outcomes = [
        outcome(checks=[check("logits", cosine_min=cosine), check("effect", effect_error=error)])
        for cosine, error in ((0.99, 0.1), (0.98, 0.01))
    ]
    outputs = outputs_of([*outcomes, outcome()], "")
    assert (outputs["min-cosine"], outputs["effect-error"]) == ("0.98", "0.1")


def test_files_are_paths_where_they_are_kept_and_not_too_many(tmp_path: Path) -> None:
    many = [{"file": f"{number}.safetensors"} for number in range(MOST_FILES)]
    kept = outcome(output=str(tmp_path), outputs=[{"file": "a b.safetensors"}])
    files = json.loads(outputs_of([kept, outcome(outputs=many)], "")["files"])
    assert files[:2] == [str(tmp_path / "a b.safetensors"), "0.safetensors"]
    assert len(files) == MOST_FILES


def test_the_report_of_one_recipe_is_that_of_run_and_of_several_a_list(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    one, other = outcome(), outcome("failed")
    write_report(path, [one])
    assert json.loads(path.read_text()) == one.document
    write_report(path, [one, other])
    assert json.loads(path.read_text()) == {
        "status": "failed",
        "reports": [{"recipe": "r.yaml", **one.document}, {"recipe": "r.yaml", **other.document}],
    }
