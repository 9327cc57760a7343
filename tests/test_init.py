"""`init` writes a recipe that runs; `run PATH` runs the one that it would write."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from hfconvert.cli import main
from hfconvert.errors import Exit, UserError
from hfconvert.init import init
from hfconvert.recipes import is_recipe, recipe_of

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["hfconvert", *arguments])
        code = main()
        out, said = capfd.readouterr()
        assert "Traceback" not in said
        return int(code), out, said

    return call


def _save(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(document, path)
    return path


STATE = {"layers.0.w": torch.ones(2, 3), "layers.1.w": torch.zeros(2, 3), "norm": torch.ones(3)}


def _prefixed(prefix: str) -> dict[str, torch.Tensor]:
    return {prefix + name: tensor for name, tensor in STATE.items()}


def test_the_names_of_an_adapter_keep_their_first_part(cli: Cli, tmp_path: Path) -> None:
    name = "base_model.model.l.{i}.lora_{side}.weight"
    factors = {
        name.format(i=i, side=side): torch.ones(2, 2) for i in range(2) for side in ("A", "B")
    }
    _save(tmp_path / "a" / "adapter_model.bin", factors)
    config = {"peft_type": "LORA", "r": 2, "base_model_name_or_path": "org/base"}
    (tmp_path / "a" / "adapter_config.json").write_text(json.dumps(config))
    code, out, _ = cli("init", "./a")
    assert code == 0
    assert "make org/base the source" in out
    assert "strip_prefix" not in out


def test_a_wrapper_that_all_names_carry_is_stripped(cli: Cli, tmp_path: Path) -> None:
    _save(tmp_path / "ckpt" / "pytorch_model.bin", _prefixed("module._orig_mod."))
    code, out, _ = cli("init", "./ckpt")
    assert code == 0
    assert "  - strip_prefix: [module., _orig_mod.]" in out
    (tmp_path / "recipe.yaml").write_text(out)
    assert cli("run", "recipe.yaml", "--output", "out")[0] == 0
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert found.keys() == STATE.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in STATE.items())


def test_run_of_a_path_does_the_same(cli: Cli, tmp_path: Path) -> None:
    _save(tmp_path / "ckpt" / "pytorch_model.bin", _prefixed("module."))
    code, out, _ = cli("run", "./ckpt", "--output", "out", "--json")
    assert code == 0
    assert json.loads(out)["status"] == "converted"
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == STATE.keys()
    code, out, _ = cli("plan", "ckpt/pytorch_model.bin", "--set", "dtype=bfloat16", "--json")
    assert code == 0
    assert {one["dtype"] for one in json.loads(out)["tensors"]} == {"BF16"}


def test_a_wrapper_on_some_names_only_is_an_alternative(tmp_path: Path) -> None:
    _save(tmp_path / "model.pt", {**_prefixed("module."), "head": torch.ones(2)})
    text = init(str(tmp_path / "model.pt"), tmp_path)
    assert "# - strip_prefix: [module.]" in text
    assert "at the front of 3 of 4 names only" in text
    assert "key_map:\n" not in text.replace("# key_map:\n", "")


def test_a_first_part_of_all_names_is_an_alternative(tmp_path: Path) -> None:
    _save(tmp_path / "model.pt", _prefixed("net."))
    text = init(str(tmp_path / "model.pt"), tmp_path)
    assert "  # - strip_prefix: [net.]" in text
    assert recipe_of(str(tmp_path / "model.pt")).key_map is None


def test_several_sets_the_largest_is_taken_and_the_others_are_said(
    cli: Cli, tmp_path: Path
) -> None:
    ema = {"w": torch.ones(2)}
    _save(tmp_path / "t.pt", {"ema": ema, "net": STATE, "epoch": 3})
    code, out, _ = cli("init", "t.pt")
    assert code == 0
    assert "\n  weights: net " in out
    assert "# weights: ema" in out
    assert cli("run", "t.pt", "--output", "out")[0] == 0
    found = load_file(next((tmp_path / "out").glob("*.safetensors")))
    assert found.keys() == STATE.keys()


def test_families_are_proposed_by_their_names(tmp_path: Path) -> None:
    names = ["bert.embeddings.LayerNorm.gamma", "bert.encoder.layer.0.attention.self.query.weight"]
    _save(tmp_path / "b" / "pytorch_model.bin", {name: torch.ones(2) for name in names})
    text = init(str(tmp_path / "b"), tmp_path)
    assert "# - family: {name: bert-original}" in text
    assert "gpt2" not in text


def test_a_wide_checkpoint_may_be_narrowed(tmp_path: Path) -> None:
    wide, narrow = tmp_path / "wide.pt", tmp_path / "narrow.pt"
    _save(wide, STATE)
    _save(narrow, {name: tensor.half() for name, tensor in STATE.items()})
    assert "# dtype: bfloat16" in init(str(wide), tmp_path)
    assert "# dtype" not in init(str(narrow), tmp_path)


class Evil:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("EVIL_RAN",))


def test_what_a_pickle_asks_for_is_said(cli: Cli, tmp_path: Path) -> None:
    _save(tmp_path / "evil.pt", {"w": torch.ones(2), "x": Evil()})
    code, out, _ = cli("init", "evil.pt")
    assert code == 0
    assert "# refuse_dangerous: false" in out
    assert "mkdir" in out
    assert not (tmp_path / "EVIL_RAN").exists()
    assert cli("run", "evil.pt")[0] == Exit.SOURCE


def test_the_recipe_is_stored_once_with_paths_from_its_folder(cli: Cli, tmp_path: Path) -> None:
    _save(tmp_path / "in" / "a b" / "pytorch_model.bin", STATE)
    code, out, _ = cli("init", "in/a b", "--output", "in/recipe.yaml", "--json")
    assert code == 0
    document = json.loads(out)
    text = (tmp_path / "in" / "recipe.yaml").read_text()
    assert document == {"recipe": text, "file": "in/recipe.yaml"}
    assert '  path: "./a b"\n' in text
    assert cli("plan", "in/recipe.yaml")[0] == 0
    code, _, said = cli("init", "in/a b", "--output", "in/recipe.yaml")
    assert code == Exit.RECIPE
    assert "may hold somebody's work" in said
    (tmp_path / "elsewhere").mkdir()
    assert cli("init", "in/a b", "--output", "elsewhere/r.yaml")[0] == 0
    assert cli("plan", "elsewhere/r.yaml")[0] == 0


@pytest.mark.parametrize("what", ["./nothing", "nothing.pt", "a/b/c"])
def test_nothing_to_look_at(cli: Cli, what: str) -> None:
    for command in ("init", "run"):
        code, out, said = cli(command, what)
        assert code == Exit.SOURCE
        assert out == ""
        assert "there is no such file or folder" in said


def test_a_folder_without_weights(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert cli("run", "./empty")[0] == Exit.SOURCE


def test_what_is_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "mine").write_text("version: 1\nsource: {path: x}\n")
    _save(tmp_path / "model.pt", STATE)
    assert is_recipe("missing.yaml")
    assert is_recipe(str(tmp_path / "mine"))
    assert not is_recipe(str(tmp_path / "folder.yaml"))
    assert not is_recipe(str(tmp_path / "model.pt"))
    assert not is_recipe("org/model")
    with pytest.raises(UserError) as caught:
        recipe_of(str(tmp_path / "missing.yaml"))
    assert caught.value.exit == Exit.RECIPE


def test_names_that_act_on_a_terminal_or_on_yaml_do_neither(tmp_path: Path) -> None:
    _save(
        tmp_path / "m.pt", {"a\x1b[2J #: [x].w": torch.ones(2), "a\x1b[2J #: [x].v": torch.ones(2)}
    )
    text = init(str(tmp_path / "m.pt"), tmp_path)
    assert "\x1b" not in text
    assert recipe_of(str(tmp_path / "m.pt")).source.path is not None
