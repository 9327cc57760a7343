"""Section Q, and what belongs to it: files beside the weights."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]

TOKENIZER = b'{"version": "1.0",\r\n "model": {"type": "BPE"}}  \n'
SIDE = {
    "LICENSE": b"a licence\n",
    "additional_chat_templates/tool_use.jinja": b"{% for message in messages %}",
    "chat_template.jinja": b"{{ bos_token }}\n",
    "empty.txt": b"",
    "generation_config.json": b'{"eos_token_id": 2}',
    "notes with spaces \u00e9.txt": "schön".encode(),
    "preprocessor_config.json": b'{"size":224}',
    "processor_config.json": b"{}",
    "special_tokens_map.json": b'{"eos_token": "</s>"}',
    "sub/folder/deep.json": b"[1]",
    "tokenizer.json": TOKENIZER,
    "tokenizer.model": bytes(range(256)),
    "tokenizer_config.json": b'{"chat_template": "x", "model_max_length": 1e30}',
}


def put(root: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def beside(done: Any) -> dict[str, bytes]:
    """The files of an output that hold neither weights nor the record of the run."""
    return {
        name: content
        for name, content in done.files.items()
        if ".safetensors" not in name and name != "hfconvert.json"
    }


@pytest.fixture
def source(tiny: State, config: dict[str, Any], store: Store) -> Path:
    return store({"pytorch_model.bin": tiny}, config=config)


@pytest.mark.parametrize("validation", ["full", "off"])
def test_212_every_side_file_arrives_byte_for_byte(
    source: Path, convert: Convert, validation: str
) -> None:
    put(source, SIDE)
    done = convert(source, validate={"tensors": validation})
    assert done.code == 0
    assert beside(done) == {**SIDE, "config.json": (source / "config.json").read_bytes()}
    assert done.check("files")["measured"] == {"files": len(SIDE) + 1, "changed": 0, "faults": 0}
    assert {item["file"] for item in done.document["outputs"]} == {
        *beside(done),
        "model.safetensors",
    }


def test_212_weights_and_what_only_training_needs_stay_behind(
    source: Path, tiny: State, convert: Convert
) -> None:
    left = [
        "flax_model.msgpack",
        "optimizer.pt",
        "rng_state.pth",
        "tf_model.h5",
        "training_args.bin",
    ]
    put(source, dict.fromkeys(left, b"x"))
    hidden = [".gitattributes", ".cache/huggingface/x.lock", "checkpoint-5/model.safetensors"]
    put(source, dict.fromkeys(hidden, b"x"))
    done = convert(source)
    assert done.holds(tiny)
    assert set(beside(done)) == {"config.json"}
    said = done.findings("info")
    assert all(name in said for name in left)


def test_212_a_snapshot_of_the_cache_is_read_through_its_links(
    source: Path, tiny: State, convert: Convert, tmp_path: Path
) -> None:
    """A snapshot of huggingface_hub is a folder of links into `blobs`, named by their hashes."""
    put(source, SIDE)
    blobs, snapshot = tmp_path / "cache" / "blobs", tmp_path / "cache" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    for number, path in enumerate(sorted(source.rglob("*"))):
        if path.is_file():
            link = snapshot / path.relative_to(source)
            link.parent.mkdir(parents=True, exist_ok=True)
            path.rename(blobs / f"{number:064}")
            link.symlink_to(os.path.relpath(blobs / f"{number:064}", link.parent))
    done = convert(snapshot)
    assert done.holds(tiny)
    assert {name: content for name, content in beside(done).items() if name in SIDE} == SIDE
    assert not any(path.is_symlink() for path in done.output.rglob("*"))


def test_212_links_that_lead_nowhere_are_said(source: Path, convert: Convert) -> None:
    (source / "tokenizer.json").symlink_to(source / "blobs" / "gone")
    done = convert(source)
    assert done.code == 0
    assert "1 files cannot be copied: `tokenizer.json`" in done.findings("warning")


def test_212_a_name_that_is_no_text_is_said(source: Path, convert: Convert) -> None:
    put(source, {os.fsdecode(b"caf\xe9.txt"): b"x"})
    done = convert(source)
    assert done.code == 0
    assert "caf\\udce9.txt" in done.findings("warning")


def test_212_more_files_than_may_be_open_at_once(source: Path, convert: Convert) -> None:
    import resource

    many = {f"voices/{number}.json": str(number).encode() for number in range(300)}
    put(source, many)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        done = convert(source)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert done.code == 0
    assert {name: content for name, content in beside(done).items() if "/" in name} == many


def test_212_a_file_that_changes_during_the_run_stops_it(
    source: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(source, {"tokenizer.json": TOKENIZER})
    from hfconvert.making.execute import copy_files

    def changing(files: Any, folder: Path) -> Any:
        yield from copy_files(files, folder)
        (source / "tokenizer.json").write_bytes(TOKENIZER + b" ")

    monkeypatch.setattr("hfconvert.making.make.copy_files", changing)
    done = convert(source)
    assert done.code in (1, 3)
    assert "tokenizer.json" in done.said


def test_212_the_recipe_in_the_source_is_no_part_of_the_model(
    source: Path, convert: Convert, tmp_path: Path
) -> None:
    (tmp_path / "recipe.yaml").touch()
    (source / "convert.yaml").symlink_to(tmp_path / "recipe.yaml")
    (source / "other.yaml").write_text("kept: true\n")
    assert set(beside(convert(source))) == {"config.json", "other.yaml"}


def test_212_an_output_inside_the_source_does_not_hold_itself(
    source: Path, tiny: State, convert: Convert
) -> None:
    put(source, {"tokenizer.json": TOKENIZER})
    first = convert(source, output="source/out")
    assert first.holds(tiny)
    assert convert(source, output="source/out").document["status"] == "up-to-date"
    second = convert(source, output="source/two")
    assert second.files.keys() == first.files.keys()
    assert second.document["digest"] == first.document["digest"]


def test_214_both_forms_of_a_chat_template_are_kept(source: Path, convert: Convert) -> None:
    both = {
        "chat_template.jinja": b"{{ one }}",
        "tokenizer_config.json": b'{"chat_template": "{{ two }}"}',
    }
    put(source, both)
    done = convert(source)
    assert {name: done.files[name] for name in both} == both


def test_215_code_named_in_auto_map_is_copied_and_never_imported(
    source: Path, config: dict[str, Any], convert: Convert, tmp_path: Path
) -> None:
    mark = tmp_path / "imported"
    code = {
        "configuration_x.py": f"open({str(mark)!r}, 'w')\n".encode(),
        "modeling_x.py": b"from .configuration_x import X\nraise SystemExit(9)\n",
    }
    put(source, code)
    auto = {"AutoConfig": "configuration_x.X", "AutoModel": "modeling_x.X"}
    auto |= {"AutoModelForCausalLM": "org/repo--modeling_y.Y"}
    (source / "config.json").write_text(json.dumps({**config, "auto_map": auto}))
    done = convert(source)
    assert done.code == 0
    assert {name: done.files[name] for name in code} == code
    assert done.json("config.json")["auto_map"] == auto
    assert not mark.exists()
    assert "its code stays in the repository org/repo" in done.findings("info")
    assert "auto_map" not in done.findings("warning")


def test_215_code_that_is_named_and_missing_is_said(
    source: Path, config: dict[str, Any], convert: Convert
) -> None:
    auto = {"AutoTokenizer": ["tokenization_x.Slow", None]}
    put(source, {"tokenizer_config.json": json.dumps({"auto_map": auto}).encode()})
    done = convert(source)
    assert done.code == 0
    warnings = done.findings("warning")
    assert "tokenizer_config.json: names tokenization_x.Slow in auto_map" in warnings
    assert "tokenization_x.py is not in the source" in warnings


def test_215_beside_a_single_file_too(
    source: Path, config: dict[str, Any], convert: Convert
) -> None:
    put(source, {"modeling_x.py": b"1/0\n", "holiday.txt": b"no"})
    auto = {"AutoModel": "modeling_x.X"}
    (source / "config.json").write_text(json.dumps({**config, "auto_map": auto}))
    done = convert(source / "pytorch_model.bin")
    assert set(beside(done)) == {"config.json", "modeling_x.py"}


def test_164_what_a_model_folder_lacks_is_said(tiny: State, store: Store, convert: Convert) -> None:
    bare = convert(store({"pytorch_model.bin": tiny}, folder="bare"))
    assert bare.code == 0
    assert "the source has no config.json and no tokenizer" in bare.findings("warning")
    assert "source.assets_from" in json.dumps(bare.document["findings"])
    lightning = {"state_dict": tiny, "pytorch-lightning_version": "2.5", "epoch": 1}
    done = convert(store({"last.ckpt": lightning}, folder="lightning"), output="lightning-out")
    assert "the source has no config.json and no tokenizer" in done.findings("warning")


def test_164_other_weights_need_no_configuration(store: Store, convert: Convert) -> None:
    done = convert(store({"resnet.pth": {"conv.weight": torch.ones(2, 2, 3, 3)}}))
    assert done.code == 0
    assert done.findings("warning") == ""


def test_164_assets_from_gives_what_the_source_lacks(
    tiny: State, config: dict[str, Any], store: Store, convert: Convert
) -> None:
    base = store({"model.safetensors": {"other": torch.ones(1)}}, config=config, folder="base")
    put(base, {**SIDE, "README.md": b"the card of the base", "modeling_x.py": b"1/0"})
    lightning = {"state_dict": tiny, "pytorch-lightning_version": "2.5", "epoch": 1}
    source = store({"last.ckpt": lightning})
    put(source, {"generation_config.json": b'{"own": true}', "README.md": b"own card"})
    done = convert(source, reading={"assets_from": str(base)})
    assert done.code == 0
    assert beside(done) == {
        **SIDE,
        "README.md": b"own card",
        "generation_config.json": b'{"own": true}',
        "modeling_x.py": b"1/0",
        "config.json": (base / "config.json").read_bytes(),
    }
    assert done.holds(tiny)
    assert "are taken from" in done.findings("info")
    assert "`generation_config.json` are the source's own" in done.findings("warning")
    assert "the source has no" not in done.findings("warning")


def test_164_the_configuration_of_the_assets_decides_ties(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, convert: Convert
) -> None:
    base = store({}, config=config_tied, folder="base")
    clones = {name: tensor.clone() for name, tensor in tiny_tied.items()}
    done = convert(store({"pytorch_model.bin": clones}), reading={"assets_from": str(base)})
    del clones["lm_head.weight"]
    assert done.holds(clones)


def test_164_assets_that_are_no_folder(source: Path, convert: Convert, tmp_path: Path) -> None:
    done = convert(source, reading={"assets_from": str(tmp_path / "nothing")})
    assert done.code == 2
    assert "is no folder" in done.findings("error")
    assert "recipe.yaml:5:" in done.findings("error")


def test_164_assets_that_add_nothing_are_said(source: Path, convert: Convert) -> None:
    done = convert(source, reading={"assets_from": str(source)})
    assert "the source lacks nothing" in done.findings("warning")


def test_the_content_of_assets_is_part_of_the_digest(
    tiny: State, config: dict[str, Any], store: Store, convert: Convert
) -> None:
    source = store({"pytorch_model.bin": tiny})
    digests = []
    for name, heads in (("one", 4), ("two", 8), ("three", 4)):
        base = store({}, config={**config, "num_attention_heads": heads}, folder=name)
        done = convert(source, reading={"assets_from": str(base)}, output=f"out-{name}")
        digests.append(done.document["digest"])
    assert digests[0] == digests[2] != digests[1]
