"""Which files of a repository a result is about: stems, what goes, what counts as moved."""

from __future__ import annotations

import pytest

from hfconvert.hub.content import Content
from hfconvert.hub.source import HubFile
from hfconvert.hub.target import moved, stem_of, superseded

SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize(
    ("files", "stem"),
    [
        (["model.safetensors", "config.json"], "model.safetensors"),
        ([INDEX, *SHARDS], "model.safetensors"),
        (["unet/" + name for name in SHARDS], "unet/model.safetensors"),
        (["config.json"], ""),
    ],
)
def test_a_stem_is_the_same_whatever_the_number_of_shards(files: list[str], stem: str) -> None:
    assert stem_of(files) == stem


@pytest.mark.parametrize(
    ("present", "sent", "gone"),
    [
        (["model.safetensors"], [*SHARDS, INDEX], ["model.safetensors"]),
        ([*SHARDS, INDEX], ["model.safetensors"], [*SHARDS, INDEX]),
        (
            ["model-00001-of-00003.safetensors", INDEX],
            [*SHARDS, INDEX],
            ["model-00001-of-00003.safetensors"],
        ),
        (["model.safetensors"], ["model.safetensors"], []),
        (["model.fp16.safetensors", "adapter_model.safetensors"], ["model.safetensors"], []),
        (["unet/model.safetensors"], [*SHARDS, INDEX], []),
        (["pytorch_model.bin", "pytorch_model.bin.index.json"], ["model.safetensors"], []),
        (["xmodel.safetensors", "model_safetensors"], ["model.safetensors"], []),
        (["model.safetensors"], ["config.json"], []),
    ],
)
def test_only_what_loaders_would_read_instead_goes(
    present: list[str], sent: list[str], gone: list[str]
) -> None:
    assert superseded(present, sent) == tuple(sorted(gone))


def _files(**digests: str) -> dict[str, HubFile]:
    paths = {name.replace("__", "/").replace("_dot_", "."): one for name, one in digests.items()}
    return {path: HubFile(path, 1, Content("git", one)) for path, one in paths.items()}


def test_weights_indexes_and_configurations_move() -> None:
    before = _files(a_dot_bin="1", config_dot_json="1", README_dot_md="1", gone_dot_pt="1")
    after = _files(a_dot_bin="2", config_dot_json="1", README_dot_md="2", new_dot_safetensors="1")
    assert moved(before, after) == ["a.bin", "gone.pt", "new.safetensors"]
    assert moved(before, before) == []


def test_a_folder_moves_by_itself() -> None:
    before = _files(unet__a_dot_bin="1", vae__a_dot_bin="1")
    after = _files(unet__a_dot_bin="1", vae__a_dot_bin="2")
    assert moved(before, after, "unet") == []
    assert moved(before, after, "vae") == ["vae/a.bin"]
