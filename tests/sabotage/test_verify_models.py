"""Wrong conversions whose every value is what a recipe makes of the source: what the model computes tells."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.sabotage.maps import FUSED, HALF

State = dict[str, torch.Tensor]


class Done(Protocol):
    code: int
    report: dict[str, Any]

    def failed(self) -> set[str]: ...
    def said(self) -> str: ...


Run = Callable[..., Done]
Spoil = Callable[[State], State]


@pytest.fixture(params=["llama", "mixtral"])
def folders(
    request: pytest.FixtureRequest, built: Callable[[str], Path], tmp_path: Path
) -> tuple[Path, Path]:
    """A source and a right conversion of it."""
    shutil.copytree(built(request.param), tmp_path / "sides")
    return tmp_path / "sides" / "source", tmp_path / "sides" / "candidate"


@pytest.fixture
def recipe(tmp_path: Path, folders: tuple[Path, Path]) -> Callable[..., Path]:
    """Write a recipe that lies between the two."""

    def write(**parts: Any) -> Path:
        path = tmp_path / "recipe.yaml"
        document = {"version": 1, "source": {"path": str(folders[0])}, **parts}
        path.write_text(json.dumps(document))
        return path

    return write


def spoil(candidate: Path, change: Spoil) -> None:
    file = candidate / "model.safetensors"
    state = {name: one.contiguous() for name, one in change(load_file(file)).items()}
    save_file(state, file, metadata={"format": "pt"})


def halves(state: State) -> State:
    """Rows of queries and keys from pairs side by side to halves: right for Meta's layout, not for this."""
    return {
        name: one.reshape(4, 2, 2, 16).transpose(1, 2).reshape(16, 16)
        if name.endswith(("q_proj.weight", "k_proj.weight"))
        else one
        for name, one in state.items()
    }


def transposed(state: State) -> State:
    return {name: one.T if name.endswith("o_proj.weight") else one for name, one in state.items()}


def statuses(done: Done) -> dict[str, str]:
    return {one["name"]: one["status"] for one in done.report["checks"]}


def detail(done: Done, name: str) -> str:
    return next(str(one["detail"]) for one in done.report["checks"] if one["name"] == name)


@pytest.mark.parametrize(
    ("change", "key_map"),
    [(halves, HALF), (transposed, [{"transpose": ["*.o_proj.weight"]}])],
    ids=["rotary", "transposed"],
)
def test_a_recipe_that_hides_it_does_not_hide_it_from_the_logits(
    folders: tuple[Path, Path], recipe: Any, hfconvert: Run, change: Spoil, key_map: Any
) -> None:
    spoil(folders[1], change)
    done = hfconvert("verify", *folders, "--recipe", recipe(key_map=key_map))
    assert (done.code, done.failed()) == (1, {"logits"})
    assert statuses(done)["tensors"] == statuses(done)["architecture"] == "pass"


@pytest.mark.parametrize("key_map", [HALF, [{"transpose": ["*.o_proj.weight"]}]])
def test_a_run_is_not_fooled_either(
    folders: tuple[Path, Path], recipe: Any, hfconvert: Run, tmp_path: Path, key_map: Any
) -> None:
    done = hfconvert("run", recipe(key_map=key_map), "--output", tmp_path / "out")
    assert (done.code, done.failed()) == (1, {"logits"})
    assert not (tmp_path / "out").exists()


@pytest.fixture
def fused(folders: tuple[Path, Path]) -> tuple[Path, Path]:
    """The same with a source whose queries, keys and values are one matrix; the candidate is right."""
    file = folders[0] / "pytorch_model.bin"
    state = torch.load(file, weights_only=True)
    for layer in range(2):
        prefix = f"model.layers.{layer}.self_attn."
        parts = [state.pop(f"{prefix}{one}_proj.weight") for one in "qkv"]
        state[f"{prefix}qkv.weight"] = torch.cat(parts)
    torch.save(state, file)
    return folders


def swapped(state: State) -> State:
    """Queries where keys belong, and keys where queries do."""
    names = {name: name.replace("q_proj", "?").replace("k_proj", "q_proj") for name in state}
    return {names[name].replace("?", "k_proj"): one for name, one in state.items()}


def test_a_wrong_order_of_qkv(
    fused: tuple[Path, Path], recipe: Any, hfconvert: Run, tmp_path: Path
) -> None:
    reference = shutil.copytree(fused[1], tmp_path / "reference")
    right = [{"qkv": FUSED}]
    validate = {"reference": str(reference)}
    done = hfconvert("verify", *fused, "--recipe", recipe(key_map=right, validate=validate))
    assert (done.code, statuses(done)["logits"]) == (0, "pass"), done.said()
    spoil(fused[1], swapped)
    wrong = [{"qkv": {**FUSED, "into": [FUSED["into"][place] for place in (1, 0, 2)]}}]
    done = hfconvert("verify", *fused, "--recipe", recipe(key_map=wrong, validate=validate))
    assert (done.code, done.failed()) == (1, {"logits"})


def test_without_a_reference_it_says_what_it_could_not_see(
    fused: tuple[Path, Path], recipe: Any, hfconvert: Run
) -> None:
    done = hfconvert("verify", *fused, "--recipe", recipe(key_map=[{"qkv": FUSED}]))
    assert (done.code, statuses(done)["logits"]) == (0, "skipped")
    assert "validate.reference takes a folder" in detail(done, "logits")


def test_equal_values_need_no_logits(folders: tuple[Path, Path], hfconvert: Run) -> None:
    done = hfconvert("verify", *folders)
    assert (done.code, statuses(done)["architecture"]) == (0, "pass")
    assert detail(done, "logits") == "every value is the source's, bit for bit: so are the logits"


def bfloat16(candidate: Path) -> None:
    spoil(candidate, lambda state: {name: one.bfloat16() for name, one in state.items()})
    path = candidate / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "dtype": "bfloat16"}))


def test_a_cast_is_computed(folders: tuple[Path, Path], hfconvert: Run) -> None:
    bfloat16(folders[1])
    done = hfconvert("verify", *folders)
    assert (done.code, statuses(done)["logits"]) == (0, "pass"), done.said()
    (logits,) = (one for one in done.report["checks"] if one["name"] == "logits")
    assert 0.9 < logits["measured"]["cosine_min"] < 1
    assert done.report["versions"]["transformers"]


def test_a_limit_of_the_recipe_holds_for_a_cast(
    folders: tuple[Path, Path], recipe: Any, hfconvert: Run
) -> None:
    bfloat16(folders[1])
    limits = {"logits": {"min_cosine": 0.9999999}}
    given = recipe(dtype="bfloat16", validate=limits)
    done = hfconvert("verify", *folders, "--recipe", given)
    assert (done.code, done.failed()) == (1, {"logits"})


def test_too_little_memory_is_no_fault_of_the_weights(
    folders: tuple[Path, Path], hfconvert: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    bfloat16(folders[1])
    monkeypatch.setattr("hfconvert.checks.logits.layers.available_memory_bytes", lambda: 1)
    done = hfconvert("verify", *folders)
    assert (done.code, statuses(done)["logits"]) == (0, "skipped")
    assert "the harness cannot compare" in detail(done, "logits")


def test_a_source_that_fits_no_class_is_no_fault_of_the_candidate(
    folders: tuple[Path, Path], hfconvert: Run
) -> None:
    for folder in folders:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "num_hidden_layers": 3}))
    done = hfconvert("verify", *folders)
    assert (done.code, statuses(done)["architecture"]) == (0, "skipped")
    assert "the source's own names and shapes do not fit" in detail(done, "architecture")
    assert "neither side loads into the class" in done.said()


CODE = """
from transformers import LlamaConfig, LlamaForCausalLM


class OwnConfig(LlamaConfig):
    model_type = "own"


class OwnForCausalLM(LlamaForCausalLM):
    config_class = OwnConfig
"""


@pytest.mark.parametrize(
    ("folders", "trusted", "option", "ran"),
    [("llama", True, True, True), ("llama", True, False, False), ("llama", False, True, False)],
    indirect=["folders"],
)
def test_code_of_a_repository_runs_with_both_switches_only(
    folders: tuple[Path, Path],
    recipe: Any,
    hfconvert: Run,
    *,
    trusted: bool,
    option: bool,
    ran: bool,
) -> None:
    for folder in folders:
        (folder / "modeling_own.py").write_text(CODE)
        path = folder / "config.json"
        auto = {
            "AutoConfig": "modeling_own.OwnConfig",
            "AutoModelForCausalLM": "modeling_own.OwnForCausalLM",
        }
        own = {"architectures": ["OwnForCausalLM"], "model_type": "own", "auto_map": auto}
        path.write_text(json.dumps({**json.loads(path.read_text()), **own}))
    given = recipe(validate={"trust_remote_code": trusted})
    switch = ["--allow-remote-code"] if option else []
    done = hfconvert("verify", *folders, "--recipe", given, *switch)
    assert (done.code, statuses(done)["architecture"]) == (0, "pass" if ran else "skipped")
    if not ran:
        assert "validate.trust_remote_code and --allow-remote-code" in detail(done, "architecture")


@pytest.fixture
def merged(folders: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Callable[[float], None]]:
    """An adapter of the source, and a way to make the candidate PEFT's merge of it at a scale."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    def model() -> Any:
        base = AutoModelForCausalLM.from_pretrained(folders[0])
        targets = ["q_proj", "v_proj", "o_proj"]
        made = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=targets))
        torch.manual_seed(7)
        with torch.no_grad():
            for name, parameter in made.named_parameters():
                if "lora_" in name:
                    parameter.normal_(std=0.2)
        return made

    model().save_pretrained(tmp_path / "adapter")

    def merge(scale: float) -> None:
        peft = model()
        for module in peft.modules():
            if isinstance(getattr(module, "scaling", None), dict):
                module.scaling = {name: scale * one for name, one in module.scaling.items()}
        peft.merge_and_unload().save_pretrained(folders[1])

    return tmp_path / "adapter", merge


# peft 0.21 asks transformers 5.24 by a name that is deprecated there (seen 2026-11-30)
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.parametrize("folders", ["llama"], indirect=True)
@pytest.mark.parametrize(("scale", "failed"), [(1.0, set()), (0.0, {"merge"}), (0.5, {"merge"})])
def test_somebodys_merge(
    folders: tuple[Path, Path],
    merged: tuple[Path, Callable[[float], None]],
    recipe: Any,
    hfconvert: Run,
    scale: float,
    failed: set[str],
) -> None:
    adapter, merge = merged
    merge(scale)
    given = recipe(lora={"adapters": [{"adapter": str(adapter)}]})
    done = hfconvert("verify", *folders, "--recipe", given)
    assert done.failed() == failed, done.said()
    passed = {name for name, status in statuses(done).items() if status == "pass"}
    wanted = {"names", "tensors", "files", "dtypes"}
    assert passed == (wanted if failed else {*wanted, "merge", "architecture", "logits", "effect"})
