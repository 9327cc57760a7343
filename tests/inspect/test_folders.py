from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

Look = Callable[..., Any]
WEIGHTS = {"w": torch.ones(3, 2)}
OTHER = {"w": torch.zeros(3, 2)}
DAMAGED = {"html", "lfs-pointer", "empty"}


def weights_of(found: Any) -> list[str]:
    return [name for name, role in found.roles().items() if role == "weights"]


def test_safetensors_before_pickles(look: Look) -> None:
    found = look({"model.safetensors": WEIGHTS, "pytorch_model.bin": OTHER})
    assert weights_of(found) == ["model.safetensors"]
    assert found.file("pytorch_model.bin")["note"] == "left aside: model.safetensors is read"
    assert len(found["tensors"]) == 1


def test_files_of_other_programs_are_not_taken_for_weights(look: Look, strangers: Any) -> None:
    found = look({**{name: data for name, (data, _) in strangers.items()}, "weights.pt": WEIGHTS})
    for name, (_, form) in strangers.items():
        assert found.file(name)["format"] == form, name
    known = {name for name, (_, form) in strangers.items() if form not in DAMAGED}
    assert known.isdisjoint(weights_of(found))
    assert found["kind"] == "model"


def test_a_model_beside_a_file_of_llama_cpp(look: Look, strangers: Any) -> None:
    found = look({"model-q4.bin": strangers["model-q4.bin"][0], "weights.pt": WEIGHTS})
    assert weights_of(found) == ["weights.pt"]
    assert found.said("error") == ""
    assert found.file("model-q4.bin")["note"] == "a GGUF file of llama.cpp"


def test_a_pointer_is_told_whatever_its_name(look: Look, strangers: Any) -> None:
    pointer = strangers["pointer.bin"][0]
    found = look({"model.safetensors": pointer, "tokenizer.json": pointer})
    assert "model.safetensors: it is a Git LFS pointer, 70 bytes; expected 12345" in (
        found.said("error")
    )
    assert "tokenizer.json: it is a Git LFS pointer" in found.said("warning")


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_file_that_was_cut_off(look: Look, folder: Any, name: str) -> None:
    whole = (folder({name: {"w": torch.ones(9000)}}) / name).read_bytes()
    found = look({name: whole[: len(whole) // 2]})
    assert found.file(name)["role"] == "weights"
    assert found.said("error").startswith(f"{name}: ")
    assert found["totals"]["tensors"] == 0


def test_missing_shards_are_named(look: Look) -> None:
    names = [f"model-{number:05}-of-00003.safetensors" for number in (1, 2, 3)]
    index = {"weight_map": dict(zip("abc", names, strict=True))}
    found = look({names[1]: {"b": torch.ones(1)}, "model.safetensors.index.json": index})
    assert found.said("error").splitlines() == [
        f"{name}: this file is missing (model.safetensors.index.json needs it; "
        "a download may have been interrupted)"
        for name in (names[0], names[2])
    ]
    assert found.file("model.safetensors.index.json")["note"] == "index of shards"


def test_very_many_missing_shards_are_counted(look: Look) -> None:
    found = look({"model-00001-of-90000.safetensors": WEIGHTS})
    missing = [one for one in found["problems"] if "is missing" in one["message"]]
    assert len(missing) == 20
    assert "and 89979 more like it" in missing[-1]["message"]


def test_several_files_that_nothing_tells_apart(look: Look) -> None:
    found = look({"a.pt": WEIGHTS, "b.pt": OTHER})
    assert found.said("error").startswith(": several files could be the weights: a.pt, b.pt")


def test_the_newest_checkpoint_of_a_run(look: Look) -> None:
    files = {f"checkpoint-{step}/model.safetensors": WEIGHTS for step in (5, 100, 20)}
    found = look(files)
    assert weights_of(found) == ["checkpoint-100/model.safetensors"]
    assert "checkpoint-100: the newest of 3 checkpoints" in found.said("info")


def test_checkpoints_beside_a_model_are_no_part_of_it(look: Look) -> None:
    found = look({"model.safetensors": WEIGHTS, "checkpoint-5/model.safetensors": OTHER})
    assert weights_of(found) == ["model.safetensors"]
    assert (
        found.file("checkpoint-5/model.safetensors")["note"] == "left aside: another folder is read"
    )


def test_parts_of_a_pipeline_are_all_weights(look: Look) -> None:
    found = look(
        {
            "model_index.json": {"_class_name": "P", "unet": ["diffusers", "U"], "vae": ["d", "A"]},
            "unet/diffusion_pytorch_model.safetensors": WEIGHTS,
            "vae/diffusion_pytorch_model.safetensors": WEIGHTS,
            "other/model.safetensors": WEIGHTS,
        }
    )
    assert found["library"] == "diffusers"
    assert weights_of(found) == [
        "unet/diffusion_pytorch_model.safetensors",
        "vae/diffusion_pytorch_model.safetensors",
    ]


def test_folders_that_nothing_ties_together(look: Look) -> None:
    found = look({"one/model.safetensors": WEIGHTS, "two/model.safetensors": OTHER})
    assert "several folders hold weights: one, two" in found.said("warning")


def test_hidden_files_are_passed_over(look: Look) -> None:
    found = look({"model.safetensors": WEIGHTS, ".cache/x.bin": OTHER, ".hidden": b"x"})
    assert list(found.roles()) == ["model.safetensors"]
