"""transformers itself finds a pull request of safetensors, and loads it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi

from tests.hub.loopback.server import RunningHub

Api = Callable[..., HfApi]
TITLE = "Adding `safetensors` variant of this model"
LOAD = """
import json, sys
from transformers import AutoModelForCausalLM
from transformers.safetensors_conversion import previous_pr
from huggingface_hub import HfApi

found = previous_pr(HfApi(), "owner/tiny", sys.argv[1], token=None)
model = AutoModelForCausalLM.from_pretrained("owner/tiny", revision=found.git_reference)
total = float(model.transformer.wte.weight.detach().sum())
print(json.dumps({"num": found.num, "class": type(model).__name__, "sum": total}))
"""


def tiny_model(folder: Path) -> float:
    """A GPT-2 of a few kilobytes in a folder, as safetensors; the sum of its embedding."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
    model = GPT2LMHeadModel(config)
    model.save_pretrained(folder)
    return float(model.transformer.wte.weight.detach().sum())


def test_transformers_finds_and_loads_a_pull_request(
    hub: RunningHub, api: Api, tmp_path: Path, process_env: dict[str, str]
) -> None:
    folder = tmp_path / "model"
    total = tiny_model(folder)
    config = (folder / "config.json").read_text()
    repo = hub.repo("owner/tiny", {"config.json": config, "pytorch_model.bin": b"\x80\x02."})
    info = api().create_commit(
        "owner/tiny",
        [CommitOperationAdd("model.safetensors", folder / "model.safetensors")],
        commit_message=TITLE,
        create_pr=True,
        parent_commit=repo.head.id,
    )
    run = subprocess.run(
        [sys.executable, "-c", LOAD, TITLE],
        env=process_env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert (found["num"], found["class"]) == (info.pr_num, "GPT2LMHeadModel")
    assert abs(found["sum"] - total) < 1e-6
    assert hub.log.find("GET", "xet-read-token")
