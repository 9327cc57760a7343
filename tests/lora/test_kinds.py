"""Kinds of modules and of targets that no stored adapter covers: made by PEFT here, merged as by PEFT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hfconvert.checks.merge import hold_file, merge_check
from hfconvert.planning.plan import Plan
from tests.lora.trained import by_peft, draw, train

State = dict[str, torch.Tensor]
Planned = Callable[..., Plan]
Tensors = Callable[[Plan], State]

Q, V = ["q_proj"], ["v_proj"]
# Base, class of the configuration and its fields, and how many tensors are merged.
CASES: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "all linear layers": ("llama", "LoraConfig", {"target_modules": "all-linear"}, 14),
    "a regex": ("llama", "LoraConfig", {"target_modules": r".*\.1\..*(q|down)_proj"}, 2),
    "layers": ("llama", "LoraConfig", {"target_modules": Q, "layers_to_transform": [1]}, 1),
    "layers by pattern": (
        "llama",
        "LoraConfig",
        {"target_modules": Q + V, "layers_to_transform": 0, "layers_pattern": "layers"},
        2,
    ),
    "exclusions": (
        "llama",
        "LoraConfig",
        {"target_modules": Q + V, "exclude_modules": r".*\.0\..*q_proj"},
        3,
    ),
    "patterns and rank-stabilised": (
        "llama",
        "LoraConfig",
        {
            "target_modules": Q + V,
            "use_rslora": True,
            "rank_pattern": {r"layers\.1\..*q_proj": 3},
            "alpha_pattern": {"v_proj": 5},
        },
        4,
    ),
    "magnitudes and patterns": (
        "llama",
        "LoraConfig",
        {"target_modules": Q + V, "use_dora": True, "rank_pattern": {"v_proj": 2}},
        4,
    ),
    "magnitudes of an embedding": (
        "llama",
        "LoraConfig",
        {"target_modules": ["embed_tokens"], "use_dora": True},
        1,
    ),
    "magnitudes over [in, out]": (
        "gpt2",
        "LoraConfig",
        {"target_modules": ["c_attn", "c_proj"], "use_dora": True, "fan_in_fan_out": True},
        6,
    ),
    "square [in, out]": (
        "gpt2",
        "LoraConfig",
        {"target_modules": r".*attn\.c_proj", "fan_in_fan_out": True},
        2,
    ),
    "IA3 over [in, out]": (
        "gpt2",
        "IA3Config",
        {"target_modules": ["c_attn", "c_fc"], "feedforward_modules": ["c_fc"]},
        8,
    ),
    "BOFT with biases": (
        "llama_bias",
        "BOFTConfig",
        {"target_modules": Q, "boft_block_size": 4},
        2,
    ),
    "OFT of a pattern": ("llama", "OFTConfig", {"target_modules": Q, "oft_block_size": 16}, 2),
    "a module saved whole": (
        "llama",
        "LoraConfig",
        {"target_modules": Q, "modules_to_save": ["input_layernorm"]},
        2,
    ),
    "trained tokens and a product": (
        "llama",
        "LoraConfig",
        {"target_modules": Q, "trainable_token_indices": {"embed_tokens": [0, 7, 3]}},
        3,
    ),
    "experts, one parameter": (
        "mixtral",
        "LoraConfig",
        {"target_modules": [], "target_parameters": ["mlp.experts.down_proj"]},
        8,
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_both_modes_equal_peft_and_pass_the_check(
    case: str, zoo: Path, tmp_path: Path, planned: Planned, tensors: Tensors
) -> None:
    name, config, fields, count = CASES[case]
    base, adapter = zoo / "base" / name, tmp_path / "adapter"
    train(base, adapter, config, **({"r": 4} if config == "LoraConfig" else {}), **fields)
    for mode, dtype in (("float32", torch.float32), ("native", torch.bfloat16)):
        plan = planned(base, adapter, compute_dtype=mode)
        assert len(plan.merges.sums) == count
        assert plan.merges.touched.items() >= plan.merges.targeted.items()
        ours, theirs = tensors(plan), by_peft(base, dtype, adapter)
        same_names = ours.keys() & theirs.keys()
        assert len(same_names) >= count or name == "mixtral"
        wrong = [one for one in same_names if not torch.equal(ours[one], theirs[one].bfloat16())]
        assert wrong == []
        save_file(ours, tmp_path / "written.safetensors")
        held = hold_file(tmp_path / "written.safetensors", "written", plan.merges)
        check = merge_check(held, plan.merges)
        assert check.status == "pass", check.detail


SHAPES = [(4, 4), (6, 64), (1, 64), (64, 1), (10, 10), (33, 17), (100, 100), (20, 300), (257, 130)]


class Ragged(torch.nn.Module):
    """Linear layers and embeddings of shapes for which BLAS has ways of its own."""

    def __init__(self) -> None:
        super().__init__()
        for number, (rows, columns) in enumerate(SHAPES):
            self.add_module(f"linear{number}", torch.nn.Linear(columns, rows))
            self.add_module(f"embedding{number}", torch.nn.Embedding(rows, columns))


class Convolutions(torch.nn.Module):
    """One, two and three dimensions, and a kernel of size one."""

    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.Conv1d(4, 8, 3)
        self.two = torch.nn.Conv2d(4, 8, 3, bias=False)
        self.point = torch.nn.Conv2d(8, 6, 1)
        self.three = torch.nn.Conv3d(2, 4, 2)


class Attention(torch.nn.Module):
    """torch's own attention."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = torch.nn.MultiheadAttention(16, 2, batch_first=True)


CONVOLVED = {"target_modules": ["one", "two", "point", "three"]}
PLANES = {"target_modules": ["two", "point"]}
RAGGED = {"target_modules": [f"{kind}{n}" for kind in ("linear", "embedding") for n in range(9)]}
# Model, class of the configuration, its fields.
MODULES: dict[str, tuple[type[torch.nn.Module], str, dict[str, Any]]] = {
    "ragged, rank 2": (Ragged, "LoraConfig", {"r": 2, "lora_alpha": 6, **RAGGED}),
    "ragged, rank 64": (Ragged, "LoraConfig", {"r": 64, "lora_alpha": 8, **RAGGED}),
    "convolutions": (Convolutions, "LoraConfig", {"r": 2, **CONVOLVED}),
    "convolutions with magnitudes": (Convolutions, "LoraConfig", {"use_dora": True, **CONVOLVED}),
    "LoHa of convolutions": (
        Convolutions,
        "LoHaConfig",
        {"r": 2, "use_effective_conv2d": True, **PLANES},
    ),
    "LoKr of convolutions": (
        Convolutions,
        "LoKrConfig",
        {"r": 2, "use_effective_conv2d": True, **PLANES},
    ),
    "IA3 of convolutions": (Convolutions, "IA3Config", {"feedforward_modules": ["two"], **PLANES}),
    "BOFT of convolutions": (Convolutions, "BOFTConfig", {"boft_block_size": 2, **PLANES}),
    "attention": (Attention, "LoraConfig", {"r": 4, "target_modules": ["attn"]}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", MODULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_modules_by_themselves_equal_peft(
    case: str, dtype: torch.dtype, tmp_path: Path, planned: Planned, tensors: Tensors
) -> None:
    import peft

    kind, config, fields = MODULES[case]
    torch.manual_seed(0)
    source, adapter = tmp_path / "model.safetensors", tmp_path / "adapter"
    net = kind().to(dtype)
    save_file(net.state_dict(), source)
    draw(peft.get_peft_model(net, getattr(peft, config)(**fields)), adapter)
    for mode in ("float32", "native"):
        fresh = kind().to(dtype)
        fresh.load_state_dict(load_file(source))
        fresh = fresh if mode == "native" else fresh.float()
        theirs = peft.PeftModel.from_pretrained(fresh, adapter).merge_and_unload().state_dict()
        plan = planned(source, adapter, compute_dtype=mode)
        ours = tensors(plan)
        assert ours.keys() == theirs.keys()
        assert plan.merges.sums
        wrong = [name for name in ours if not torch.equal(ours[name], theirs[name].to(dtype))]
        assert wrong == []
