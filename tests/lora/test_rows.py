"""Layers of any number of rows: windows of rows that overlap are added once.

Fewer rows than 16 are left out: there torch multiplies in another order than it does in all other shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file

Merge = Callable[..., dict[str, torch.Tensor]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("alpha", [8, 3])  # scales that are folded into a factor, and that are not
@pytest.mark.parametrize("rows", [16, 255, 256, 257, 300, 512, 513, 688, 1000])
def test_every_row_is_what_peft_makes_of_it(
    rows: int, alpha: int, merge: Merge, tmp_path: Path
) -> None:
    torch.manual_seed(rows)
    net = torch.nn.Sequential(torch.nn.Linear(48, rows))
    save_file(net.state_dict(), tmp_path / "model.safetensors")
    config = LoraConfig(r=4, lora_alpha=alpha, target_modules=["0"], init_lora_weights=False)
    adapted: Any = get_peft_model(net, config)
    adapted.save_pretrained(tmp_path / "adapter")
    theirs = adapted.merge_and_unload().state_dict()
    ours = merge(tmp_path / "model.safetensors", tmp_path / "adapter")
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
