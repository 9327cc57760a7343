"""Folders to be judged, and one way to judge them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.console import Console
from hfconvert.gate import check
from hfconvert.recipe import load
from hfconvert.report.documents import report_document
from hfconvert.report.model import Report
from tests.written_files import write_files

State = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Judged:
    """The report of the gate, and short ways into it."""

    report: Report

    @property
    def broken(self) -> set[str]:
        """Names of the rules that failed."""
        return {one.name for one in self.report.checks if one.status == "fail"}

    def rule(self, name: str) -> dict[str, Any]:
        """A rule, as the document has it."""
        (found,) = (one for one in report_document(self.report)["checks"] if one["name"] == name)
        assert isinstance(found, dict)
        return found

    def errors(self, check: str) -> str:
        """Findings of level error of a rule, one a line: subject, message, hint."""
        return "\n".join(
            f"{one.subject}: {one.message} | {one.hint}"
            for one in self.report.findings
            if one.level == "error" and one.check == check
        )


Judge = Callable[..., Judged]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Write files into a folder, and judge it; `recipe` is the text of a recipe beside the folder."""

    def run(files: Mapping[str, Any], name: str = "", recipe: str = "") -> Judged:
        root = write_files(tmp_path / "model", files)
        loaded = None
        if recipe:
            file = tmp_path / "recipe.yaml"
            file.write_text(recipe)
            loaded = load(file, ())
        report = check(str(root / name), loaded, Console(-1))
        assert report.status == ("failed" if any_failed(report) else "verified")
        return Judged(report)

    return run


def any_failed(report: Report) -> bool:
    return any(one.status == "fail" for one in report.checks)


@pytest.fixture
def state() -> State:
    """Six tensors of a model of two layers."""
    generator = torch.Generator().manual_seed(1)
    names = [f"layers.{layer}.{part}" for layer in (0, 1) for part in ("q", "k", "norm")]
    return {name: torch.randn(3, 4, generator=generator) for name in names}
