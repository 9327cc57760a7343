"""Methods that no stored adapter covers: made by PEFT here, merged bit for bit as it merges them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hfconvert.checks.merge import hold_file, merge_check
from hfconvert.errors import UserError
from hfconvert.lora.methods import METHODS
from hfconvert.plan import Plan

TARGETS = ["q_proj", "v_proj", "down_proj"]
# Class of the configuration, and its fields.
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "boft": ("BOFTConfig", {"boft_block_size": 8}),
    "boft_butterfly": ("BOFTConfig", {"boft_block_size": 4, "boft_n_butterfly_factor": 2}),
    "hra": ("HRAConfig", {"r": 4}),
    "hra_gram_schmidt": ("HRAConfig", {"r": 4, "apply_GS": True}),
    "miss": ("MissConfig", {"r": 4}),
    "c3a": ("C3AConfig", {"block_size": 8}),
    "shira": ("ShiraConfig", {"r": 4}),
    "road": ("RoadConfig", {"group_size": 8}),
    "waveft": ("WaveFTConfig", {"n_frequency": 40}),
    "delora": ("DeloraConfig", {"r": 4}),
    "gralora": ("GraloraConfig", {"r": 8, "gralora_k": 2}),
    "hira": ("HiraConfig", {"r": 4}),
    "deft": ("DeftConfig", {"r": 4}),
    "qalora": ("LoraConfig", {"r": 4, "use_qalora": True, "qalora_group_size": 16}),
    "olora": ("LoraConfig", {"r": 4, "init_lora_weights": "olora"}),
    "oft_exact": ("OFTConfig", {"oft_block_size": 8, "use_cayley_neumann": False}),
    "oft_shared": ("OFTConfig", {"oft_block_size": 8, "block_share": True}),
    "lokr_low_rank": ("LoKrConfig", {"r": 2, "decompose_both": True}),
}


def trained(base: Path, case: str, folder: Path) -> None:
    """An adapter of the method, with weights that are drawn."""
    import peft
    from transformers import AutoModelForCausalLM

    name, fields = CONFIGS[case]
    torch.manual_seed(0)
    config = getattr(peft, name)(target_modules=TARGETS, **fields)
    inner = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model: Any = peft.get_peft_model(inner, config)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += torch.randn(parameter.shape, generator=generator) * 0.05
    model.save_pretrained(folder)


def by_peft(base: Path, adapter: Path, dtype: torch.dtype, folder: Path) -> dict[str, torch.Tensor]:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    inner = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    model: Any = PeftModel.from_pretrained(inner, adapter)
    model.merge_and_unload().save_pretrained(folder)
    return load_file(folder / "model.safetensors")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("base", ["llama", "llama_bias"])
@pytest.mark.parametrize("case", CONFIGS)
def test_both_modes_equal_peft_and_pass_the_check(
    case: str,
    base: str,
    zoo: Path,
    tmp_path: Path,
    planned: Callable[..., Plan],
    tensors: Callable[[Plan], dict[str, torch.Tensor]],
) -> None:
    source, adapter = zoo / "base" / base, tmp_path / "adapter"
    trained(source, case, adapter)
    plan = planned(source, adapter)
    for mode, dtype in (("float32", torch.float32), ("native", torch.bfloat16)):
        plan = planned(source, adapter, compute_dtype=mode)
        ours = tensors(plan)
        theirs = by_peft(source, adapter, dtype, tmp_path / mode)
        wrong = [name for name in ours if not torch.equal(ours[name], theirs[name].bfloat16())]
        assert wrong == []
        written = tmp_path / f"{mode}.safetensors"
        save_file(ours, written)
        check = merge_check(hold_file(written, "written", plan.merges), plan.merges)
        assert check.status == "pass", check.detail
    untouched = hold_file(source / "model.safetensors", "base", plan.merges)
    assert len(untouched.wrong) == len(plan.merges.sums)


@pytest.mark.parametrize("method", sorted(name for name, one in METHODS.items() if one.refused))
def test_what_is_not_merged_is_refused_by_name(
    method: str, zoo: Path, tmp_path: Path, planned: Callable[..., Plan]
) -> None:
    import shutil

    adapter = tmp_path / "adapter"
    shutil.copytree(zoo / "lora_plain/adapter", adapter)
    (adapter / "adapter_config.json").write_text(f'{{"peft_type": "{method}"}}')
    with pytest.raises(UserError) as error:
        planned(zoo / "base/llama", adapter)
    assert error.value.exit == 3
    assert f"{method} cannot be merged" in str(error.value)


def test_every_method_of_peft_is_known() -> None:
    from peft import PeftType

    assert {one.value for one in PeftType} <= METHODS.keys()


@pytest.mark.filterwarnings("ignore")
def test_multihead_attention_answers_as_the_trained_model_does(
    tmp_path: Path, planned: Callable[..., Plan], tensors: Callable[[Plan], dict[str, torch.Tensor]]
) -> None:
    """PEFT trains with the update of the output projection added twice: so it has to be merged."""
    from peft import LoraConfig, get_peft_model

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = torch.nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            answer: torch.Tensor = self.attn(x, x, x, need_weights=False)[0]
            return answer

    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(2, 5, 16)
    source = tmp_path / "model.safetensors"
    save_file(net.state_dict(), source)
    model: Any = get_peft_model(net, LoraConfig(r=4, lora_alpha=8, target_modules=["attn"]))
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = torch.randn(parameter.shape) * 0.1
    model.eval()
    answer = model(x)
    model.save_pretrained(tmp_path / "adapter")
    plan = planned(source, tmp_path / "adapter")
    assert plan.merges.sums.keys() == {"attn.in_proj_weight", "attn.out_proj.weight"}
    merged = Net().eval()
    merged.load_state_dict(tensors(plan))
    assert torch.allclose(merged(x), answer, atol=1e-5)
