from __future__ import annotations

import json
from pathlib import Path

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.readers.layout import Choice, Layout, choose, find_layouts


def _folder(root: Path, *names: str) -> Path:
    """A folder with those files; an index maps one tensor to each of two shards of its stem."""
    for name in names:
        if name.endswith(".index.json"):
            stem, _, ending = name.removesuffix(".index.json").rpartition(".")
            shards = [f"{stem}-{number:05}-of-00002.{ending}" for number in (1, 2)]
            document = {"weight_map": dict(zip("ab", shards, strict=True))}
            (root / name).write_text(json.dumps(document))
        else:
            (root / name).write_bytes(b"")
    return root


def _chosen(root: Path, *names: str) -> Choice:
    return choose(_folder(root, *names), None, "source.files")


ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
BINS = ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin")


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["model.safetensors"], ("model.safetensors",)),
        (["pytorch_model.bin"], ("pytorch_model.bin",)),
        (["weights.pt"], ("weights.pt",)),
        (["last.ckpt"], ("last.ckpt",)),
        (["consolidated.00.pth"], ("consolidated.00.pth",)),
        # safetensors before pickles, whatever their names
        (["model.safetensors", "pytorch_model.bin"], ("model.safetensors",)),
        (["other.safetensors", "pytorch_model.bin"], ("other.safetensors",)),
        # an index before a single file
        ([INDEX, ONE, TWO, "model.safetensors"], (ONE, TWO)),
        (["pytorch_model.bin.index.json", *BINS, "pytorch_model.bin"], BINS),
        # names that loaders look for before others
        (["extra.safetensors", "model.safetensors"], ("model.safetensors",)),
        (["adapter_model.safetensors", "x.safetensors"], ("adapter_model.safetensors",)),
        # shards without an index, complete or not: all that the numbers promise
        ([ONE, TWO], (ONE, TWO)),
        ([TWO], (ONE, TWO)),
        # what a training run leaves is no weights
        (
            ["optimizer.pt", "scheduler.pt", "training_args.bin", "rng_state.pth", "w.bin"],
            ("w.bin",),
        ),
        (["tokenizer.bin", "config.json", "notes.txt", "w.bin"], ("w.bin",)),
    ],
)
def test_which_files_are_the_weights(
    tmp_path: Path, names: list[str], files: tuple[str, ...]
) -> None:
    assert _chosen(tmp_path, *names).layout.files == files


def test_the_index_comes_with_its_layout(tmp_path: Path) -> None:
    layout = _chosen(tmp_path, INDEX, ONE, TWO).layout
    assert layout.index is not None
    assert (layout.stem, layout.family, layout.label) == ("model", "safetensors", INDEX)


def test_the_index_names_the_files_even_where_they_are_missing(tmp_path: Path) -> None:
    assert _chosen(tmp_path, INDEX, ONE).layout.files == (ONE, TWO)


def test_a_stray_file_beside_an_index_is_a_warning(tmp_path: Path) -> None:
    choice = _chosen(tmp_path, INDEX, ONE, TWO, "model.safetensors")
    (finding,) = choice.findings
    assert (finding.level, finding.subject) == ("warning", "model.safetensors")
    assert INDEX in finding.message


def test_other_weights_are_left_aside_and_said(tmp_path: Path) -> None:
    choice = _chosen(tmp_path, "model.safetensors", "ema.safetensors")
    (finding,) = choice.findings
    assert (finding.level, finding.subject) == ("info", "ema.safetensors")
    assert choice.twin is None


@pytest.mark.parametrize(
    ("safetensors", "torch"),
    [
        ("model.safetensors", "pytorch_model.bin"),
        ("model.safetensors", "model.pt"),
        ("diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.bin"),
        ("adapter_model.safetensors", "adapter_model.bin"),
        ("open_clip_model.safetensors", "open_clip_pytorch_model.bin"),
    ],
)
def test_pickles_of_the_same_weights_are_their_twin(
    tmp_path: Path, safetensors: str, torch: str
) -> None:
    choice = _chosen(tmp_path, safetensors, torch)
    assert choice.layout.files == (safetensors,)
    assert choice.twin is not None
    assert choice.twin.files == (torch,)
    assert choice.findings == ()


@pytest.mark.parametrize(
    "names", [["a.safetensors", "b.safetensors"], ["a.bin", "b.pt"], [ONE, "model.safetensors"]]
)
def test_equal_rivals_are_for_the_recipe_to_decide(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        _chosen(tmp_path, *names)
    assert caught.value.exit == Exit.RECIPE
    assert "source.files" in str(caught.value)
    assert all(name in str(caught.value) for name in names)


@pytest.mark.parametrize("names", [[], ["config.json", "optimizer.pt"]])
def test_a_folder_without_weights(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(UserError, match="no weights were found") as caught:
        _chosen(tmp_path, *names)
    assert caught.value.exit == Exit.SOURCE
    assert ("the folder is empty" in str(caught.value)) == (not names)


@pytest.mark.parametrize(
    ("patterns", "files", "stem"),
    [
        (["ema.bin"], ("ema.bin",), "ema"),
        (["pytorch_model-*.bin"], BINS, "pytorch_model"),
        ([BINS[0], "ema.*"], ("ema.bin", BINS[0]), "model"),
        (["pytorch_model.bin.index.json"], BINS, "pytorch_model"),
        (["pytorch_model*"], BINS, "pytorch_model"),
        (["*.bin*"], ("ema.bin", *BINS), "model"),
    ],
)
def test_the_recipe_names_files(
    tmp_path: Path, patterns: list[str], files: tuple[str, ...], stem: str
) -> None:
    _folder(tmp_path, "ema.bin", "model.safetensors", "pytorch_model.bin.index.json", *BINS)
    layout = choose(tmp_path, patterns, "recipe.yaml:3:5").layout
    assert (layout.files, layout.stem) == (files, stem)


def test_every_pattern_that_matches_nothing_is_named(tmp_path: Path) -> None:
    _folder(tmp_path, "a.bin")
    with pytest.raises(UserError) as caught:
        choose(tmp_path, ["a.bin", "b.*", "c.bin"], "recipe.yaml:3:5")
    assert caught.value.exit == Exit.RECIPE
    assert [problem.subject for problem in caught.value.problems] == ["recipe.yaml:3:5"] * 2
    assert "'b.*'" in str(caught.value)
    assert "'c.bin'" in str(caught.value)
    assert "a.bin" in caught.value.problems[0].do


@pytest.mark.parametrize("name", ["config.json", "tf_model.h5.index.json"])
def test_patterns_that_leave_no_weights(tmp_path: Path, name: str) -> None:
    _folder(tmp_path, name, "model.safetensors")
    with pytest.raises(UserError, match="is no file of weights") as caught:
        choose(tmp_path, [name], "recipe.yaml:3:5")
    assert caught.value.exit == Exit.RECIPE


def test_an_index_that_is_named_with_its_shards_still_governs(tmp_path: Path) -> None:
    _folder(tmp_path, "pytorch_model.bin.index.json", *BINS)
    assert choose(tmp_path, ["pytorch_model*"], "source.files").layout.index is not None


def test_a_broken_index_is_an_error_of_the_source(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text("{")
    with pytest.raises(UserError, match="index cannot be used") as caught:
        choose(tmp_path, None, "source.files")
    assert caught.value.exit == Exit.SOURCE


def test_an_absurd_number_of_shards_is_not_spelled_out(tmp_path: Path) -> None:
    name = "model-00001-of-9999999999.safetensors"
    assert find_layouts(tmp_path, [name]) == [Layout("model", "safetensors", (name,))]


def test_layouts_come_in_order_of_preference(tmp_path: Path) -> None:
    names = ["z.bin", "pytorch_model.bin", "a.safetensors", "model.safetensors"]
    found = [layout.files[0] for layout in find_layouts(tmp_path, names)]
    assert found == ["model.safetensors", "a.safetensors", "pytorch_model.bin", "z.bin"]


def test_folders_are_no_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(UserError, match="no weights"):
        choose(tmp_path, None, "source.files")


def test_weights_one_folder_below_are_pointed_at(tmp_path: Path) -> None:
    for name in ("checkpoint-5", "checkpoint-10", "logs"):
        (tmp_path / name).mkdir()
    _folder(tmp_path / "checkpoint-5", "model.safetensors")
    _folder(tmp_path / "checkpoint-10", "pytorch_model.bin")
    with pytest.raises(UserError, match="no weights were found in this folder itself") as caught:
        choose(tmp_path, None, "source.files")
    assert "checkpoint-10, checkpoint-5" in str(caught.value)
    assert "logs" not in str(caught.value)


def test_a_file_of_another_program_is_no_rival(tmp_path: Path) -> None:
    (tmp_path / "a-q4.bin").write_bytes(b"GGUF\x03\0\0\0" + bytes(50))
    choice = _chosen(tmp_path, "weights.pt")
    assert choice.layout.files == ("weights.pt",)
    (said,) = choice.findings
    assert (said.subject, said.message) == (
        "a-q4.bin",
        "left aside: it is a GGUF file of llama.cpp",
    )


def test_where_there_is_nothing_else_the_foreign_file_is_read_and_named(tmp_path: Path) -> None:
    (tmp_path / "a-q4.bin").write_bytes(b"GGUF\x03\0\0\0" + bytes(50))
    assert choose(tmp_path, None, "source.files").layout.files == ("a-q4.bin",)


@pytest.mark.parametrize(
    "content", [b"", b"<html>", b"version https://git-lfs.github.com/spec/v1\n"]
)
def test_what_stands_in_the_place_of_weights_stays_a_rival(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(UserError, match=r"several files could be the weights: a\.bin, b\.pt"):
        _chosen(tmp_path, "b.pt")
