"""What is proved of one model: its pickle converted, or merged with a LoRA, loads equal."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hfconvert.cli import main
from tests.zoo.lora import adapted

State = Mapping[str, torch.Tensor]

# Two units in the last place of the largest values: torch multiplies small matrices in another order.
NEAR = 3e-8


@dataclass(frozen=True, slots=True)
class Proof:
    """Why it did not come out, empty where it did; `near` counts tensors that are equal within NEAR only."""

    why: str = ""
    near: int = 0


def convert(model: Any, folder: Path) -> Proof:
    """Pickle the model, convert it, load it: every parameter and buffer as it was."""
    pickled(model, folder / "source")
    why = converted(folder)
    return Proof(why) if why else compared(model, model.state_dict(), folder / "out")


def merge(model: Any, folder: Path) -> Proof:
    """Pickle the model, merge a LoRA of PEFT into it, load it: what PEFT itself makes of it, in float32.

    NotBuiltError where PEFT makes no adapter for it.
    """
    pickled(model, folder / "source")
    merged = adapted(model, folder / "adapter")
    lora = {"adapters": [{"adapter": str(folder / "adapter")}]}
    why = converted(folder, lora=lora, validate={"logits": "off"})
    return Proof(why) if why else compared(merged, merged.state_dict(), folder / "out", NEAR)


def by_itself(model: Any, folder: Path) -> Proof:
    """The same without hfconvert: what `save_pretrained` and `from_pretrained` of the class lose."""
    model.save_pretrained(folder / "own")
    return compared(model, model.state_dict(), folder / "own")


def pickled(model: Any, folder: Path) -> None:
    """The model's tensors under their names on disk, as one pickle, with its configuration."""
    from transformers.core_model_loading import revert_weight_conversion

    folder.mkdir()
    state = revert_weight_conversion(model, dict(model.state_dict()))
    torch.save(dict(state), folder / "pytorch_model.bin")
    model.config.save_pretrained(folder)


def converted(folder: Path, **parts: Any) -> str:
    """Convert `source` to `out`; why that did not work, or nothing."""
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        json.dumps({"version": 1, "source": {"path": str(folder / "source")}, **parts})
    )
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


def compared(model: Any, wanted: State, folder: Path, bound: float = 0.0) -> Proof:
    """What is another once the folder is loaded as such a model."""
    loaded, info = type(model).from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, local_files_only=True
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[kind]:
            return Proof(f"{kind}: {sorted(map(str, info[kind]))[:3]}")
    after = loaded.state_dict()
    apart = {
        name: _apart(one, after[name]) if name in after else float("inf")
        for name, one in wanted.items()
    }
    far = {name: by for name, by in apart.items() if not by <= bound}
    if not far:
        return Proof(near=sum(by > 0 for by in apart.values()))
    return Proof(f"{len(far)} differ by up to {max(far.values()):.2g}: {list(far)[:3]}")


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference; 0 only where all bits are equal."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return float("inf")
    if torch.equal(_bytes(one), _bytes(other)):
        return 0.0
    return max(float((one.double() - other.double()).abs().max()), sys.float_info.min)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
