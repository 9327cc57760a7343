from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hfconvert.errors import Exit, UserError
from hfconvert.inspect.facts import inspect

Look = Callable[..., Any]
WEIGHTS = {"a.weight": torch.ones(3, 2), "a.bias": torch.zeros(3, dtype=torch.bfloat16)}

KINDS = [
    *("model", "training file", "training folder", "optimizer alone", "adapter", "mixed"),
    *("quantized by name", "quantized by configuration", "settings", "nothing"),
]


@pytest.mark.parametrize("name", KINDS)
def test_kinds(look: Look, kinds: Any, name: str) -> None:
    files, kind = kinds[name]
    assert look(files)["kind"] == kind


def test_all_kinds_are_tried(kinds: Any) -> None:
    assert set(kinds) == set(KINDS)
    assert {kind for _, kind in kinds.values()} == {
        *("model", "training", "adapter", "quantized", "mixed", "unknown")
    }


def test_tensors_of_every_role_and_their_totals(look: Look, kinds: Any) -> None:
    found = look(kinds["training file"][0])
    roles = {one["name"]: one["role"] for one in found["tensors"]}
    assert roles["weight"] == "weights"
    assert roles["optimizer.state.0.exp_avg"] == "optimizer"
    totals = found["totals"]
    assert totals["parameters"] == 15
    assert totals["by_role"] == {"weights": 60, "optimizer": 2 * 60 + 2 * 4, "other": 0}
    assert totals["bytes"] == sum(one["bytes"] for one in found["tensors"]) == 188
    assert totals["tensors"] == len(found["tensors"]) == 8
    assert totals["by_dtype"] == {"F32": 60}
    assert found["training"]["optimizer_bytes"] == 128


def test_parameters_count_a_tie_once(look: Look) -> None:
    shared = torch.ones(5, 2)
    found = look({"m.bin": {"lm_head.weight": shared, "embed_tokens.weight": shared}})
    assert found["totals"]["parameters"] == 10
    assert found["ties"] == [{"kept": "embed_tokens.weight", "dropped": "lm_head.weight"}]


def test_several_sets_with_their_sizes(look: Look) -> None:
    average = {name: tensor * 2 for name, tensor in WEIGHTS.items()}
    found = look({"last.pt": {"model": WEIGHTS, "ema": average, "epoch": 3}})
    assert found["weights"] == [
        {"name": name, "tensors": 2, "bytes": 30, "chosen": False} for name in ("model", "ema")
    ]
    assert {one["name"] for one in found["tensors"]} == {
        f"{part}.{name}" for part in ("model", "ema") for name in WEIGHTS
    }
    assert found["training"]["epoch"] == 3


def test_wrappers(look: Look) -> None:
    names = {f"module._orig_mod.{name}": tensor for name, tensor in WEIGHTS.items()}
    assert look({"m.bin": names})["wrappers"] == ["module.", "_orig_mod."]


def test_what_the_trainer_leaves(look: Look, kinds: Any) -> None:
    files = {
        **kinds["training folder"][0],
        "trainer_state.json": {"epoch": 1.5, "global_step": 40, "log_history": [1]},
        "training_args.bin": pickle.dumps({"learning_rate": 0.1}),
        "rng_state.pth": {"python": (3, (1, 2)), "numpy": None, "cpu": torch.get_rng_state()},
        "scheduler.pt": {"last_epoch": 4},
    }
    found = look(files)
    assert found["training"]["epoch"] == 1.5
    assert found["training"]["step"] == 40
    assert found["training"]["framework"] == "transformers"
    assert found["training"]["training_args"] == {"learning_rate": 0.1}
    roles = found.roles()
    assert roles.pop("model.safetensors") == "weights"
    assert roles.pop("optimizer.pt") == "optimizer"
    assert set(roles.values()) == {"other"}
    assert found.file("training_args.bin")["note"] == "arguments of the Trainer"
    random = [one["role"] for one in found["tensors"] if one["file"] == "rng_state.pth"]
    assert random == ["other"]


def test_an_adapter(look: Look, kinds: Any) -> None:
    found = look(kinds["adapter"][0])
    assert found["library"] == "peft"
    assert found["lora"] == {
        "r": 2,
        "lora_alpha": 4,
        "scale": 2.0,
        "target_modules": ["q", "v"],
        "base": None,
        "variant": "LORA",
        "config_present": True,
    }


def test_an_adapter_whose_configuration_is_lost(look: Look, kinds: Any) -> None:
    files = dict(kinds["adapter"][0])
    del files["adapter_config.json"]
    lora = look(files)["lora"]
    assert (lora["r"], lora["lora_alpha"], lora["scale"]) == (2, None, None)
    assert lora["config_present"] is False


def test_imports_are_judged(look: Look) -> None:
    data = pickle.dumps(WEIGHTS, 2)
    evil = data[:2] + b"cos\nsystem\n0cmy.model\nNet\n0" + data[2:]
    found = look({"pytorch_model.bin": evil})
    (pickled,) = found["pickle"]
    verdicts = {f"{one['module']}.{one['name']}": one["verdict"] for one in pickled["imports"]}
    assert verdicts["os.system"] == "dangerous"
    assert verdicts["my.model.Net"] == "unknown"
    assert verdicts["torch._utils._rebuild_tensor_v2"] == "inert"
    assert pickled["dangerous"] == [{"module": "os", "name": "system"}]
    assert found["safe"] is False
    assert look({"pytorch_model.bin": WEIGHTS})["safe"] is True


def test_a_broken_pickle_tells_what_it_asked_for(look: Look) -> None:
    found = look({"pytorch_model.bin": b"\x80\x02cos\nsystem\n("})
    assert found["pickle"][0]["dangerous"] == [{"module": "os", "name": "system"}]
    assert found["safe"] is False
    assert "its pickle is broken" in found.said("error")


def test_pickles_beside_the_weights_are_judged_too(look: Look) -> None:
    found = look({"model.safetensors": WEIGHTS, "data/extra.pkl": b"cos\nsystem\n."})
    assert found["kind"] == "model"
    assert [one["file"] for one in found["pickle"]] == ["data/extra.pkl"]
    assert found["safe"] is False


def test_what_has_to_be_unpacked_is_not_lazy(look: Look, folder: Any) -> None:
    import gzip

    plain = folder({"model.pt": WEIGHTS}) / "model.pt"
    assert inspect(str(plain))["lazy"] is True
    packed = look({"model.pt.gz": gzip.compress(plain.read_bytes())}, "model.pt.gz")
    assert (packed["lazy"], packed["kind"]) == (False, "model")
    assert packed.file("model.pt.gz")["format"] == "gzip of zip"


@pytest.mark.parametrize("name", ["ggml-model.bin", "page.bin", "pointer.bin", "nothing.bin"])
def test_one_file_of_another_kind_is_answered(look: Look, strangers: Any, name: str) -> None:
    data, form = strangers[name]
    found = look({name: data}, name)
    assert found["kind"] == "unknown"
    assert found.file(name)["format"] == form
    assert found.said("error").startswith(f"{name}: ")


def test_a_broken_configuration_is_a_problem_and_no_error(look: Look) -> None:
    found = look({"model.safetensors": WEIGHTS, "config.json": b"{"})
    assert found["kind"] == "model"
    assert "this configuration cannot be read" in found.said("error")


def test_index_and_headers_that_disagree(look: Look) -> None:
    file = "pytorch_model-00001-of-00001.bin"
    index = {"weight_map": {"a.weight": file, "ghost": file}, "metadata": {}}
    found = look({file: WEIGHTS, "pytorch_model.bin.index.json": index})
    assert "ghost" in found.said("error")
    assert "a.bias" in found.said("error")


def test_nothing_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file or folder") as caught:
        inspect(str(tmp_path / "nowhere"))
    assert caught.value.exit is Exit.SOURCE
    assert "a repository is org/name" in caught.value.problems[0].do


def test_entries_that_are_no_files_are_named_and_never_opened(look: Look, folder: Any) -> None:
    root = folder({"model.safetensors": WEIGHTS})
    os.mkfifo(root / "pipe.bin")
    (root / "gone.bin").symlink_to(root / "nowhere")
    found = inspect(str(root))
    assert [one["file"] for one in found["files"]] == ["model.safetensors"]
    (said,) = (one for one in found["problems"] if "entries are no files" in one["message"])
    assert "gone.bin, pipe.bin" in said["message"]
    with pytest.raises(UserError, match="it is no regular file"):
        inspect(str(root / "pipe.bin"))


def test_reading_a_folder_reads_no_tensor(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from hfconvert.tensors.source import LocalFile

    big = torch.ones(300_000)
    root = folder({"pytorch_model.bin": {"w": big}, "other.bin": {"w": big}})
    read: list[int] = []
    plain = LocalFile.readinto

    def counted(self: LocalFile, buffer: memoryview, offset: int) -> None:
        read.append(buffer.nbytes)
        plain(self, buffer, offset)

    monkeypatch.setattr(LocalFile, "readinto", counted)
    inspect(str(root))
    assert sum(read) < 100_000
