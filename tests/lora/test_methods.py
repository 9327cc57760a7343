"""Methods that no stored adapter covers: made by PEFT here, merged bit for bit as it merges them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from hfconvert.checks.merge import hold_file, merge_check
from hfconvert.errors import UserError
from hfconvert.lora.methods import METHODS
from hfconvert.planning.plan import Plan
from tests.lora.trained import by_peft, train

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
    "mica": ("LoraConfig", {"r": 4, "init_lora_weights": "mica"}),
    "orthogonal": ("LoraConfig", {"r": 4, "init_lora_weights": "orthogonal"}),
    "kasa": ("LoraConfig", {"r": 4, "kasa_config": {}}),
    "velora": ("LoraConfig", {"r": 4, "velora_config": {"num_groups": 4}}),
    "monteclora": ("LoraConfig", {"r": 4, "monteclora_config": {}}),
    "bdlora": (
        "LoraConfig",
        {
            "r": 4,
            "use_bdlora": {
                "target_modules_bd_a": ["down_proj"],
                "target_modules_bd_b": ["q_proj", "v_proj"],
                "nblocks": 2,
            },
        },
    ),
    "oft_exact": ("OFTConfig", {"oft_block_size": 8, "use_cayley_neumann": False}),
    "oft_shared": ("OFTConfig", {"oft_block_size": 8, "block_share": True}),
    "peanut": ("PeanutConfig", {"r": 4}),
    "peanut_deep": ("PeanutConfig", {"r": 4, "depth": 2}),
    "psoft": ("PsoftConfig", {"r": 4}),
    "osf": ("OSFConfig", {}),
    "supertuning": ("SupertuningConfig", {}),
    "supertuning_low_rank": ("SupertuningConfig", {"r": 2, "lora_alpha": 4.0}),
    "pvera": ("PveraConfig", {"r": 4}),
    "randlora": ("RandLoraConfig", {"r": 4}),
    "vblora": ("VBLoRAConfig", {"r": 4, "num_vectors": 8, "vector_length": 4, "topk": 2}),
    "vblora_top": (
        "VBLoRAConfig",
        {
            "r": 4,
            "num_vectors": 8,
            "vector_length": 4,
            "topk": 2,
            "save_only_topk_weights": True,
        },
    ),
    "beft": ("BeftConfig", {}),
    "glora": ("GloraConfig", {"r": 4}),
    "glora_vectors": (
        "GloraConfig",
        {"config_A_B": "vector", "config_C": "vector", "config_D_E": "vector"},
    ),
    "tinylora": ("TinyLoraConfig", {"r": 2}),
    "tinylora_tied": ("TinyLoraConfig", {"r": 2, "weight_tying": 0.5, "save_projection": False}),
    "unilora": ("UniLoraConfig", {"r": 4}),
    "unilora_indices": ("UniLoraConfig", {"r": 4, "save_indices": True}),
    "frod": ("FrodConfig", {"progressbar": False}),
    "lokr_low_rank": ("LoKrConfig", {"r": 2, "decompose_both": True}),
}


def trained(base: Path, case: str, folder: Path) -> None:
    """An adapter of the case, with weights that are drawn."""
    name, fields = CONFIGS[case]
    train(base, folder, name, target_modules=TARGETS, **fields)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("case", "base"),
    [(case, "llama_bias") for case in CONFIGS if case != "frod"]
    + [(case, "llama") for case in ("boft", "road", "glora", "tinylora", "oft_exact")],
)
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
    untouched = hold_file(source / "model.safetensors", "base", plan.merges)
    assert len(untouched.wrong) == len(plan.merges.sums)
    for mode, dtype in (("float32", torch.float32), ("native", torch.bfloat16)):
        plan = planned(source, adapter, compute_dtype=mode)
        ours = tensors(plan)
        theirs = by_peft(source, dtype, adapter)
        wrong = [name for name in ours if not torch.equal(ours[name], theirs[name].bfloat16())]
        assert wrong == []
        written = tmp_path / f"{mode}.safetensors"
        save_file(ours, written)
        check = merge_check(hold_file(written, "written", plan.merges), plan.merges)
        assert check.status == "pass", check.detail


@pytest.mark.filterwarnings("ignore")
def test_projections_that_peft_rounds_do_not_pass(
    zoo: Path,
    tmp_path: Path,
    planned: Callable[..., Plan],
    tensors: Callable[[Plan], dict[str, torch.Tensor]],
) -> None:
    """At the stored dtypes PEFT rounds the projections of FRoD too, and what it makes is off by percents."""
    source, adapter = zoo / "base/llama_bias", tmp_path / "adapter"
    trained(source, "frod", adapter)
    statuses = {}
    for mode, dtype in (("float32", torch.float32), ("native", torch.bfloat16)):
        plan = planned(source, adapter, compute_dtype=mode)
        ours = tensors(plan)
        theirs = by_peft(source, dtype, adapter)
        assert [name for name in ours if not torch.equal(ours[name], theirs[name].bfloat16())] == []
        save_file(ours, tmp_path / "written.safetensors")
        held = hold_file(tmp_path / "written.safetensors", "written", plan.merges)
        statuses[mode] = merge_check(held, plan.merges).status
    assert statuses == {"float32": "pass", "native": "fail"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("tinylora_tied", "drawn from projection_seed"),
        ("unilora", "drawn from proj_seed"),
        ("waveft", "drawn from random_loc_seed"),
        ("psoft", "signs are a machine's own"),
        ("tinylora", ""),
        ("unilora_indices", ""),
        ("pvera", ""),
    ],
)
def test_what_is_made_anew_on_loading_is_said(
    case: str, said: str, zoo: Path, tmp_path: Path, planned: Callable[..., Plan]
) -> None:
    trained(zoo / "base/llama", case, tmp_path / "adapter")
    plan = planned(zoo / "base/llama", tmp_path / "adapter")
    found = [one.message for one in plan.findings if "is not stored" in one.message]
    assert len(found) == bool(said)
    assert all(said in message for message in found)


@pytest.mark.parametrize(("case", "count"), [("vera_noproj", 1), ("vera", 0)])
def test_projections_that_were_not_saved_are_said(
    case: str, count: int, zoo: Path, planned: Callable[..., Plan]
) -> None:
    plan = planned(zoo / "base/llama", zoo / case / "adapter")
    said = [one for one in plan.findings if "drawn from projection_prng_key" in one.message]
    assert [one.level for one in said] == ["warning"] * count


@pytest.mark.filterwarnings("ignore")
def test_the_engine_of_methods_over_whole_models(
    zoo: Path, tmp_path: Path, planned: Callable[..., Plan]
) -> None:
    base, adapter = zoo / "base/llama", tmp_path / "adapter"
    trained(base, "unilora", adapter)
    plan = planned(base, adapter)
    said = [one.message for one in plan.findings if one.message.startswith("engine")]
    reason = "UNILORA: one vector is dealt out to all the modules in their order"
    assert said == [f"engine model: PEFT merges the whole model; {reason}"]
    assert plan.merges.touched == {"q_proj": 2, "v_proj": 2, "down_proj": 2}
    with pytest.raises(UserError, match="the engine `module` cannot do this merge") as error:
        planned(base, adapter, engine="module")
    assert error.value.exit == 2
    with pytest.raises(UserError, match="no other engine can do it") as error:
        planned(base / "model.safetensors", adapter)
    assert error.value.exit == 2


@pytest.mark.filterwarnings("ignore")
def test_a_bias_that_the_base_has_not_is_an_error(
    zoo: Path, tmp_path: Path, planned: Callable[..., Plan]
) -> None:
    trained(zoo / "base/llama_bias", "beft", tmp_path / "adapter")
    with pytest.raises(
        UserError, match="trains the bias, and the module of the base has none"
    ) as error:
        planned(zoo / "base/llama", tmp_path / "adapter")
    assert error.value.exit == 3
    assert len(error.value.problems) == 6


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
