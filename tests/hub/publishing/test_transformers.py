"""transformers itself: its own search finds the pull request, and it loads what lies there."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch

from tests.hub.loopback.server import RunningHub

LOAD = """
import json, sys
from transformers import AutoModelForCausalLM
from transformers.safetensors_conversion import previous_pr
from huggingface_hub import HfApi

found = previous_pr(HfApi(), "owner/m", "Adding `safetensors` variant of this model", token=None)
model = AutoModelForCausalLM.from_pretrained("owner/m", revision=found.git_reference)
embedding = model.get_input_embeddings().weight
print(json.dumps({
    "num": found.num,
    "sum": float(embedding.detach().double().sum()),
    "tied": model.get_output_embeddings().weight.data_ptr() == embedding.data_ptr(),
}))
"""


@pytest.mark.parametrize("size", ["5GB", "2KB"])
def test_transformers_finds_and_loads_it(
    hub: RunningHub,
    repo: Any,
    run: Any,
    state: dict[str, torch.Tensor],
    process_env: dict[str, str],
    size: str,
) -> None:
    assert run(output={"max_shard_size": size}).code == 0
    process_env.pop("HF_TOKEN", None)
    process = subprocess.run(
        [sys.executable, "-c", LOAD], env=process_env, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    total = float(state["transformer.wte.weight"].double().sum())
    assert found["num"] == 1
    assert found["tied"]
    assert abs(found["sum"] - total) < 1e-9
