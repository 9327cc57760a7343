from __future__ import annotations

import os
from pathlib import Path

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.readers.config import read_config
from hfconvert.readers.side_files import SideFiles, side_files


def _sides(root: Path, *names: str, read: tuple[str, ...] = (), alone: bool = False) -> SideFiles:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return side_files(root, read, alone=alone)


def _copied(sides: SideFiles) -> list[str]:
    return [file.name for file in sides.copied]


def test_what_belongs_to_a_model_is_copied(tmp_path: Path) -> None:
    names = [
        "LICENSE",
        "README.md",
        "added_tokens.json",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "merges.txt",
        "modeling_custom.py",
        "preprocessor_config.json",
        "spiece.model",
        "sub/notes.txt",
        "tokenizer.json",
        "tokenizer.model",
    ]
    sides = _sides(tmp_path, *names, "model.safetensors", read=("model.safetensors",))
    assert _copied(sides) == names
    assert sides.left_out == ()
    for file in sides.copied:
        assert file.path == tmp_path / file.name
        assert file.size == len(file.name)


def test_weights_and_what_only_training_needs_are_left_out_and_listed(tmp_path: Path) -> None:
    names = [
        "model.fp16.safetensors",
        "model.safetensors.index.json",
        "optimizer.pt",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "rng_state_0.pth",
        "scheduler.pt",
        "sub/tf_model.h5",
        "trainer_state.json",
        "training_args.bin",
    ]
    sides = _sides(
        tmp_path, *names, "config.json", "model.safetensors", read=("model.safetensors",)
    )
    assert _copied(sides) == ["config.json"]
    assert list(sides.left_out) == names


@pytest.mark.parametrize(
    "name",
    [
        ".gitattributes",
        ".git/config",
        ".cache/huggingface/x.json",
        "checkpoint-500/config.json",
        "global_step100/notes.txt",
        "runs/events.json",
        "__pycache__/modeling.pyc",
        "sub/.hidden",
    ],
)
def test_what_is_no_part_of_a_model_is_passed_over(tmp_path: Path, name: str) -> None:
    assert _sides(tmp_path, name, "config.json") == _sides(tmp_path)
    assert _copied(_sides(tmp_path)) == ["config.json"]


def test_an_earlier_result_inside_the_source_is_passed_over(tmp_path: Path) -> None:
    result = ["out/hfconvert.json", "out/config.json", "out/model.safetensors"]
    sides = _sides(tmp_path, *result, ".out.hfconvert/.hfconvert.jsonl", "config.json")
    assert _copied(sides) == ["config.json"]
    assert sides.left_out == ()


def test_the_record_of_a_source_that_is_a_result_is_not_copied(tmp_path: Path) -> None:
    assert _copied(_sides(tmp_path, "hfconvert.json", "config.json")) == ["config.json"]


def test_beside_a_single_file_only_known_names_belong_to_it(tmp_path: Path) -> None:
    sides = _sides(
        tmp_path,
        "config.json",
        "holiday.jpg",
        "other.bin",
        "sub/config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "weights.bin",
        read=("weights.bin",),
        alone=True,
    )
    assert _copied(sides) == ["config.json", "tokenizer.json", "tokenizer_config.json"]
    assert sides.left_out == ()


def test_links_to_files_are_followed_and_links_to_folders_are_not(tmp_path: Path) -> None:
    blobs, root = tmp_path / "blobs", tmp_path / "snapshot"
    _sides(blobs, "abc", "more/x.txt")
    root.mkdir()
    (root / "config.json").symlink_to(blobs / "abc")
    (root / "more").symlink_to(blobs / "more")
    (root / "gone.json").symlink_to(blobs / "nothing")
    (file,) = side_files(root, (), alone=False).copied
    assert (file.name, file.size) == ("config.json", 3)


def test_a_folder_that_may_not_be_listed_is_not_lost_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _sides(tmp_path, "config.json", "sub/notes.txt")
    listed = os.scandir

    def denied(path: str | int) -> object:
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(UserError) as raised:
        side_files(tmp_path, (), alone=False)
    assert raised.value.exit == Exit.SOURCE
    assert raised.value.problems[0].subject == str(tmp_path / "sub")


def test_files_that_may_not_be_looked_at_are_said(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to("x" * 300)  # longer than any file system allows
    for look in (read_config, lambda root: side_files(root, (), alone=False)):
        with pytest.raises(UserError) as raised:
            look(tmp_path)
        assert raised.value.exit == Exit.SOURCE
        assert raised.value.problems[0].subject == str(tmp_path / "config.json")


def test_text_is_copied_though_its_name_is_that_of_a_training_state(tmp_path: Path) -> None:
    text = ["optimizer_config.json", "scaler.json", "scheduler_config.json", "scheduler/notes.md"]
    states = ["optimizer.pt", "scaler.pt", "scheduler.bin", "rng_state_0.pth", "optimizer"]
    sides = _sides(tmp_path, *text, *states)
    assert _copied(sides) == sorted(text)
    assert sides.left_out == tuple(sorted(states))
