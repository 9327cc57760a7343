from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hfconvert.errors import Exit, UserError
from hfconvert.recipe import Recipe, load, parse, substitute

MINIMAL = "version: 1\nsource: {path: ./model}\n"


def refused(path: Path) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        load(path)
    assert caught.value.exit == Exit.RECIPE
    (problem,) = caught.value.problems
    assert problem.do
    return problem.subject, problem.what


def test_a_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(MINIMAL)
    recipe = load(path)
    assert recipe.source.path == tmp_path / "model"
    assert recipe.position("source", "path") == f"{path}:2:10"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-8"])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(MINIMAL, encoding=encoding, newline="\r\n")
    assert load(path).position("version") == f"{path}:1:1"


def test_files_that_are_not_recipes(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    assert refused(path) == (str(path), "there is no such file")
    assert refused(tmp_path) == (str(tmp_path), "is a folder, not a recipe")
    path.write_bytes(b"version: 1\n\xff\xfe")
    assert refused(path) == (str(path), "is not UTF-8 text (byte 11)")
    assert refused(path / "below") == (str(path / "below"), "there is no such file")
    path.write_text("# nothing\n")
    assert refused(path) == (f"{path}:1:1", "the file is empty")
    path.write_text("#" * 2_000_000)
    assert refused(path) == (f"{path}:1:1", "the file has more than 1048576 characters")
    path.write_text("- a\n")
    assert refused(path) == (f"{path}:1:1", "the file must be a mapping, not a list of 1")
    path.write_text("just words\n")
    assert refused(path) == (f"{path}:1:1", "the file must be a mapping, not `just words`")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    assert refused(tmp_path / "r.yaml")[1] == "cannot be read: [Errno 13] Permission denied"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("source: {path: x}\n", [("recipe.yaml:1:1", "`version` is missing")]),
        ("version: 1\n", [("recipe.yaml:1:1", "`source` is missing")]),
        (
            "version: 2\nsource: {path: x}\n",
            [("recipe.yaml:1:10", "`2` is not a version that this hfconvert reads")],
        ),
        (
            "version: '1'\nsource: {path: x}\n",
            [("recipe.yaml:1:10", "`1` is not a version that this hfconvert reads")],
        ),
        (
            "version: true\nsource: {path: x}\n",
            [("recipe.yaml:1:10", "`true` is not a version that this hfconvert reads")],
        ),
        ("version: 1\nsource: x\n", [("recipe.yaml:2:9", "`source` must be a mapping, not `x`")]),
        (
            "version: 1\nsorce: {path: x}\n",
            [
                ("recipe.yaml:1:1", "`source` is missing"),
                ("recipe.yaml:2:1", "unknown key `sorce`"),
            ],
        ),
        (
            "version: 1\nsource: {repo: *a}\n",
            [("recipe.yaml:2:16", "aliases are refused: `*a`")],
        ),
    ],
)
def test_the_top_of_a_recipe(text: str, problems: list[tuple[str, str]]) -> None:
    with pytest.raises(UserError) as caught:
        parse(text, "recipe.yaml")
    assert [(problem.subject, problem.what) for problem in caught.value.problems] == problems


def test_null_is_as_good_as_absent() -> None:
    recipe = parse(MINIMAL + "key_map:\nlora: null\npublish:\n", "recipe.yaml")
    assert (recipe.key_map, recipe.lora, recipe.publish) == (None, None, None)


def test_a_recipe_cannot_be_changed() -> None:
    recipe = parse(MINIMAL, "recipe.yaml")
    with pytest.raises(ValidationError):
        recipe.source.revision = "other"  # type: ignore[misc]  # that is the point


def test_positions_of_what_is_not_written() -> None:
    recipe = parse(MINIMAL, "recipe.yaml")
    assert recipe.position("source", "revision") == "recipe.yaml:2:1"
    assert recipe.position("publish", "repo") == "recipe.yaml:1:1"
    assert recipe.position() == "recipe.yaml:1:1"


def test_a_part_can_be_left_out_and_positions_stay() -> None:
    recipe = parse("version: 1\nsource: {repo: a/b}\npublish: {}\n", "recipe.yaml")
    without = recipe.model_copy(update={"publish": None})
    assert without.publish is None
    assert without.position("source") == "recipe.yaml:2:1"


def test_a_recipe_as_json() -> None:
    recipe = parse(
        MINIMAL.replace("./model", "m, assets_from: a/b@c")
        + "key_map: [{family: {name: f, tp: 4}}, {split: {from: a, into: [b, c]}}]\n"
        "dtype: float16\nlora: {adapters: [{adapter: ./q, weight: 2}]}\n"
        "output: {max_shard_size: 1GB}\nvalidate: {logits: {inputs: [x]}, tensors: sample}\n",
        "recipe.yaml",
    )
    assert recipe.model_dump(mode="json", by_alias=True, exclude_defaults=True) == {
        "version": 1,
        "source": {"path": "m", "assets_from": "a/b@c"},
        "key_map": [
            {"family": {"name": "f", "tp": 4}},
            {"split": {"from": "a", "into": ["b", "c"]}},
        ],
        "dtype": {"default": "float16"},
        "lora": {"adapters": [{"adapter": "q", "weight": 2.0}]},
        "output": {"max_shard_size": 1_000_000_000},
        "validate": {"logits": {"inputs": ["x"]}, "tensors": "sample"},
    }


def test_substitute_fills_in_values_with_their_types() -> None:
    recipe = parse(
        "version: 1\nsource: {repo: a/b}\noutput: {path: './${source.repo}-x'}\nkey_map:\n"
        "  - resize: {e: '${config.vocab_size}', f: '${args.rows}'}\n"
        "  - drop: ['layers.${config.num_layers}.*']\n",
        "recipe.yaml",
    )
    config = {"vocab_size": 32000, "num_layers": 12}
    filled = substitute(recipe, {"config": config, "source": {"repo": "a/b"}})
    assert filled.output.path == Path("a/b-x")
    assert [step.model_dump() for step in filled.key_map or ()] == [
        {"resize": {"e": 32000, "f": "${args.rows}"}},
        {"drop": ("layers.12.*",)},
    ]
    assert filled.position("key_map", 1, "drop") == "recipe.yaml:6:5"


def test_substitute_says_what_has_no_value_and_what_does_not_fit() -> None:
    recipe = parse(
        MINIMAL + "key_map:\n  - resize: {a: '${config.x}', b: '${config.y}', c: '${config.z}'}\n",
        "recipe.yaml",
    )
    with pytest.raises(UserError) as caught:
        substitute(recipe, {"config": {"y": [1], "z": "many"}})
    assert [(problem.subject, problem.what) for problem in caught.value.problems] == [
        ("recipe.yaml:4:17", "`${config.x}` has no value"),
        ("recipe.yaml:4:35", "`${config.y}` is neither text nor a number"),
        ("recipe.yaml:4:53", "`many` is not a number"),
    ]


@given(
    st.sampled_from(["revision", "subfolder", "weights", "checkpoint"]),
    st.from_regex(r"[0-9]{1,40}", fullmatch=True),
)
def test_digits_stay_text(field: str, digits: str) -> None:
    recipe = parse(f"version: 1\nsource:\n  path: x\n  {field}: {digits}\n", "recipe.yaml")
    assert getattr(recipe.source, field) == digits


def test_a_fresh_interpreter_reads_a_recipe_without_the_heavy_libraries(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(MINIMAL)
    code = (
        "import sys; from pathlib import Path; import hfconvert.recipe as recipe;"
        "recipe.load(Path('recipe.yaml')); import hfconvert.recipe.schema;"
        "heavy = {'torch', 'transformers', 'peft', 'numpy', 'huggingface_hub'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_the_type_of_what_is_loaded() -> None:
    assert type(parse(MINIMAL, "recipe.yaml")) is Recipe
