"""The zoo: every model type that transformers can build tiny, pickled, converted, loaded again, equal.

A type passes whose result fits its class and loads with every parameter and buffer as it was. The figure is
the share of those that could be built; what does not pass is listed with its reason.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.cli import main

pytestmark = pytest.mark.slow

LEAST = 0.9
BUILT = 400  # fewer than this means that the zoo itself is broken, not that models are rare


def pickled(model: Any, folder: Path) -> None:
    """The model's tensors under their names on disk, as one pickle, with its configuration."""
    from transformers.core_model_loading import revert_weight_conversion

    folder.mkdir()
    state = revert_weight_conversion(model, dict(model.state_dict()))
    torch.save(dict(state), folder / "pytorch_model.bin")
    model.config.save_pretrained(folder)


def converted(folder: Path) -> str:
    """Convert `source` to `out`; why that did not work, or nothing."""
    recipe = folder / "recipe.yaml"
    recipe.write_text(f"version: 1\nsource: {{path: {folder / 'source'}}}\n")
    out, before = io.StringIO(), sys.argv
    sys.argv = ["hfconvert", "run", str(recipe), "--output", str(folder / "out"), "--json"]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = main()
    finally:
        sys.argv = before
    report = json.loads(out.getvalue())
    wrong = [one["message"] for one in report["findings"] if one["level"] == "error"]
    checks = {one["name"]: one for one in report["checks"]}
    if code:
        return f"exit {code}: {'; '.join(wrong)}"
    if checks["architecture"]["status"] != "pass":
        return (
            f"architecture {checks['architecture']['status']}: {checks['architecture']['detail']}"
        )
    return ""


def unequal(model: Any, folder: Path) -> str:
    """What is another after a reload, or nothing."""
    loaded, info = type(model).from_pretrained(
        folder / "out", output_loading_info=True, dtype=torch.float32, local_files_only=True
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[kind]:
            return f"{kind}: {sorted(map(str, info[kind]))[:3]}"
    before, after = model.state_dict(), loaded.state_dict()
    different = [
        name
        for name, one in before.items()
        if name not in after or not torch.equal(one, after[name].to(one.dtype))
    ]
    return f"{len(different)} differ: {different[:3]}" if different else ""


def outcome(model: Any, folder: Path) -> str:
    """Why a model did not come through, or nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pickled(model, folder / "source")
            return converted(folder) or unequal(model, folder)
    except Exception as error:  # noqa: BLE001 - one type that breaks is one line of the list
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def test_nine_of_ten_types_come_through(
    build: Callable[[str], Any],
    kinds: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed: dict[str, str] = {}
    built = 0
    for kind in kinds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = build(kind)
        if model is None:
            continue
        built += 1
        folder = tmp_path / kind.replace("/", "-")
        folder.mkdir()
        why = outcome(model, folder)
        if why:
            failed[kind] = why
        shutil.rmtree(folder)
    share = 1 - len(failed) / max(built, 1)
    lines = [f"{kind}: {why[:200]}" for kind, why in sorted(failed.items())]
    figure = f"{built - len(failed)} of {built} types came through ({share:.1%})"
    with capsys.disabled():
        sys.stdout.write("\n".join(["", figure, *lines, ""]))
    assert built >= BUILT
    assert share >= LEAST, "\n".join(lines)
