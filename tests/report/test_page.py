"""The page of a report: what it says, that it escapes what comes out of files, that it needs nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from hfconvert.console import Console
from hfconvert.recipe.loading import parse
from hfconvert.report.page import document_page, report_page
from hfconvert.run import run
from hfconvert.verifying.verify import verify

EVIL = "<script>alert('x')</script>&\"'"


def document(**changes: Any) -> dict[str, Any]:
    """A report's document, as `report_document` makes it."""
    amount = {"tensors": 2, "parameters": 8, "bytes": 32}
    side = {"tensors": 2, "parameters": 8, "bytes": 32, "by_dtype": {"F32": amount}}
    return {
        "status": "converted",
        "source": {"repo": None, "path": "/models/one", "format": "torch", "files": []},
        "candidate": None,
        "output": "/models/two",
        "digest": "d" * 64,
        "outputs": [{"file": "model.safetensors", "size": 32, "sha256": "5" * 64}],
        "checks": [
            {
                "name": "names",
                "status": "pass",
                "measured": {"tensors": 2},
                "limit": {"tensors": 2},
                "detail": "",
            }
        ],
        "findings": [],
        "totals": {"source": side, "result": side, "causes": {}},
        "dropped": [],
        "ties": [],
        "opening": None,
        "pickle": [],
        "publish": None,
        "versions": {"python": "3.11"},
        "seconds": 1.5,
        "peak_memory_bytes": 60_000_000,
        **changes,
    }


class Tags(HTMLParser):
    """Every tag with its attributes, and whether all that were opened were closed."""

    VOID = frozenset({"meta", "input", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags(page: str) -> Tags:
    parser = Tags()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def text(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.split("</style>")[1]))


def test_the_story_stands_at_the_top() -> None:
    said = text(document_page(document()))
    assert said.index("converted") < said.index("models/one to models/two")
    assert "2 tensors of 32 B became 2 tensors of 32 B." in said
    assert "Every check that could be made passed: names." in said
    assert said.index("became") < said.index("Checks")


def test_failures_and_what_was_not_done_are_in_the_story() -> None:
    checks = [
        {"name": "tensors", "status": "fail", "measured": {}, "limit": {}, "detail": "one differs"},
        {"name": "logits", "status": "skipped", "measured": {}, "limit": {}, "detail": "no class"},
    ]
    said = text(document_page(document(status="failed", checks=checks)))
    assert "Failed: tensors. Nothing was handed over." in said
    assert "Not done: logits (no class)." in said
    assert "0 of 1 checks passed" in said


def test_the_page_loads_nothing_and_is_well_formed() -> None:
    page = document_page(document())
    seen = tags(page).seen
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in seen}
    assert not [one for _, one in seen if {"src", "href"} & one.keys()]
    assert "http" not in page.replace("http-equiv", "")
    assert "default-src 'none'" in page


def test_what_comes_out_of_files_is_escaped_everywhere() -> None:
    check = {"name": "names", "status": "fail", "measured": {}, "limit": {}, "detail": EVIL}
    amount = {"tensors": 1, "parameters": 1, "bytes": 4}
    side = {"tensors": 1, "parameters": 1, "bytes": 4, "by_dtype": {EVIL: amount}}
    page = document_page(
        document(
            source={"repo": None, "path": EVIL, "format": EVIL, "files": []},
            output=EVIL,
            outputs=[{"file": EVIL, "size": 1, "sha256": EVIL}],
            checks=[check],
            findings=[
                {"level": "error", "check": "x", "subject": EVIL, "message": EVIL, "hint": EVIL}
            ],
            totals={"source": side, "result": side, "causes": {}},
            dropped=[{"name": EVIL, "rule": EVIL}],
            ties=[{"kept": EVIL, "dropped": EVIL}],
            pickle=[
                {
                    "file": EVIL,
                    "imports": [{"module": EVIL, "name": EVIL}],
                    "stubbed": [],
                    "dangerous": [{"module": EVIL, "name": EVIL}],
                }
            ],
        )
    )
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert") > 12
    assert [tag for tag, _ in tags(page).seen].count("script") == 1


def test_logits_are_drawn_with_their_limit() -> None:
    series = {
        "by_input": [
            {"input": EVIL, "cosine_min": 0.998, "position": 3, "residual": 0.06, "top1": None}
        ],
        "cosine_by_position": [1.0, 0.9999, None, 0.998],
        "difference_by_layer": [0.0, 1e-3, 2e-2],
    }
    check = {
        "name": "logits",
        "status": "fail",
        "measured": {"cosine_min": 0.998, "series": series},
        "limit": {"cosine_min": 0.999},
        "detail": "",
    }
    page = document_page(document(checks=[check]))
    assert page.count("<svg") == 3
    assert page.count('class="limit"') == 1
    assert "Difference by layer" in page
    assert "cosine_by_position" not in page
    (row,) = re.findall(r"<tr><td>(&lt;script.*?)</tr>", page)
    assert re.findall(r"right[^>]*>(.*?)<", row) == ["0.998", "3", "0.06", "none"]


def test_a_merge_shows_what_rounding_takes() -> None:
    lost = {"attention": 0.02, "mlp": 0.01}
    check = {
        "name": "merge",
        "status": "pass",
        "measured": {"lost_by_rounding": lost},
        "limit": {},
        "detail": "",
    }
    page = document_page(document(checks=[check]))
    assert "What rounding takes of the update" in page
    assert "2.00%" in page


def test_a_run_that_stopped_has_a_page_too() -> None:
    said = text(
        document_page(
            document(
                status="failed",
                source=None,
                output=None,
                outputs=[],
                checks=[],
                totals=None,
                seconds=None,
                digest=None,
                findings=[
                    {"level": "error", "check": "", "subject": "", "message": "no file", "hint": ""}
                ],
            )
        )
    )
    assert "No check was made." in said
    assert "no file" in said


@pytest.fixture
def page(tmp_path: Path) -> str:
    """The page of a real run."""
    source = tmp_path / "source"
    source.mkdir()
    save_file({"a.weight": torch.ones(2, 3), EVIL: torch.ones(2)}, source / "model.safetensors")
    recipe = parse(
        f"version: 1\nsource: {{path: {source}}}\noutput: {{path: {tmp_path / 'out'}}}\n"
        "key_map: [{rename: {a.weight: b.weight}}]\n",
        str(tmp_path / "recipe.yaml"),
    )
    return report_page(run(recipe, Console(verbosity=-1)))


def test_every_tensor_is_in_the_table_with_its_origin(page: str) -> None:
    rows = re.findall(
        r'<tr><td class="name">(.*?)</td><td>(.*?)</td><td class="shape">(.*?)</td>', page
    )
    assert ("b.weight", "F32", "2 x 3") in rows
    assert '<td class="name drop">a.weight</td>' in page
    assert "<script>alert" not in page
    tags(page)


def test_a_long_table_is_cut_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from hfconvert.report import page as module
    from hfconvert.report.page import TensorRow

    monkeypatch.setattr(module, "MOST_TENSORS", 2)
    rows = [TensorRow(f"w{number}", "F32", "1", "4 B", "", "") for number in range(5)]
    made = document_page(document(), rows)
    assert made.count('<tr><td class="name">w') == 2
    assert "and 3 more, which the JSON report lists" in made


def test_errors_stand_before_the_checks_and_failed_checks_before_the_others() -> None:
    checks = [
        {"name": name, "status": status, "measured": {}, "limit": {}, "detail": ""}
        for name, status in (("names", "pass"), ("tensors", "fail"))
    ]
    finding = {"level": "error", "check": "", "subject": "w", "message": "is torn", "hint": ""}
    page = document_page(document(status="failed", checks=checks, findings=[finding]))
    assert page.index("is torn") < page.index("<h2>Checks</h2>")
    assert page.index('id="check-tensors"') < page.index('id="check-names"')
    assert "<h2>Findings</h2>" not in page


def test_what_the_models_computed_is_told_in_words() -> None:
    logits = {
        "name": "logits",
        "status": "pass",
        "measured": {
            "cosine_min": 0.99991,
            "top1": 0.995,
            "inputs": 4,
            "peak_memory_bytes": 3 << 20,
        },
        "limit": {"cosine_min": 0.999},
        "detail": "",
    }
    effect: dict[str, Any] = {
        "name": "effect",
        "status": "pass",
        "measured": {"effect_error": 0.031, "effect": 1.0, "rounding_floor": 0.02},
        "limit": {"effect_error": 0.11},
        "detail": "",
    }
    merge = {
        "name": "merge",
        "status": "pass",
        "measured": {"lost_by_rounding": {"q_proj": 0.02}},
        "limit": {},
        "detail": "",
    }
    page = document_page(document(checks=[merge, logits, effect]))
    said = text(page)
    assert "the least cosine between their outputs is 0.99991" in said
    assert "both choose the same first in 99.5% of places" in said
    assert "within 3.1% of its effect; rounding alone takes up to 2.0%, allowed are 11.0%" in said
    assert "peak memory 3.15 MB" in said
    assert "whole effect" in page
    wrong = {**effect, "status": "fail", "measured": {**effect["measured"], "effect_error": 0.5}}
    said = text(document_page(document(status="failed", checks=[merge, logits, wrong])))
    assert "does not do what the adapter did: it is off by 50.0%" in said


def test_the_same_reason_is_told_once() -> None:
    checks: list[dict[str, Any]] = [
        {"name": name, "status": "skipped", "measured": {}, "limit": {}, "detail": "no class"}
        for name in ("architecture", "logits")
    ]
    said = text(document_page(document(checks=checks)))
    assert "Not done: architecture, logits (no class)." in said


def test_backquotes_are_code_and_nothing_else_is() -> None:
    finding = {"level": "error", "check": "", "subject": "", "message": "`a<b>` is <i>", "hint": ""}
    page = document_page(document(findings=[finding]))
    assert "<code>a&lt;b&gt;</code> is &lt;i&gt;" in page


def test_a_verification_shows_sizes_and_tensors_too(tmp_path: Path) -> None:
    state = {"a.weight": torch.ones(4, 3), "b.bias": torch.ones(3)}
    save_file(state, tmp_path / "ours.safetensors")
    theirs = {f"model.{name}": one.bfloat16() for name, one in state.items()}
    save_file(theirs, tmp_path / "theirs.safetensors")
    ours, candidate = (str(tmp_path / f"{side}.safetensors") for side in ("ours", "theirs"))
    page = report_page(verify(ours, candidate, None, Console(verbosity=-1)))
    recipe = (
        f"{{version: 1, source: {{path: {ours}}}, dtype: bfloat16, key_map: [add_prefix: model.]}}"
    )
    planned = verify(ours, candidate, parse(recipe, "recipe.yaml"), Console(verbosity=-1))
    for said in (text(page), text(report_page(planned))):
        assert "60 B F32" in said
        assert "30 B BF16" in said
    assert '<td class="name">model.a.weight</td><td>BF16</td><td class="shape">4 x 3</td>' in page
    assert '<td class="name drop">a.weight</td><td class="drop">F32 to BF16</td>' in page
