from __future__ import annotations

from collections.abc import Callable

import pytest

from hfconvert.errors import Exit
from hfconvert.recipe import Recipe
from hfconvert.recipe.not_built import _FIELDS, not_built
from hfconvert.recipe.output import Output
from hfconvert.recipe.source import Source
from hfconvert.recipe.validation import Validation


def gaps(recipe: Recipe) -> list[tuple[str, str]]:
    problems = not_built(recipe)
    assert all(problem.exit == Exit.RECIPE and problem.do for problem in problems)
    return [(problem.subject, problem.what) for problem in problems]


def test_what_works_is_no_problem(read: Callable[..., Recipe]) -> None:
    assert gaps(read()) == []
    lines = """
key_map:
  - rename: {a: b}
  - strip_prefix: [module.]
  - add_prefix: "model."
  - drop: ["*.bias"]
dtype: keep
output: {path: out, max_shard_size: 1GB, filename: a.safetensors, disk: normal}
validate: {tensors: off, architecture: off, logits: off}
"""
    head = "version: 1\nsource: {path: x, files: [a], on_duplicate: keep-indexed, subfolder: s, "
    head += "refuse_dangerous: false, weights: w, format: torch, assets_from: ./a}\n"
    assert gaps(read(lines, head=head)) == []


@pytest.mark.parametrize(
    ("lines", "column", "what"),
    [
        ("key_map: [{drop: ['${adapter.x}']}]", 19, "filling in `${adapter.x}`"),
        ("output: {path: '${config.x}'}", 10, "filling in `${config.x}`"),
    ],
)
def test_what_does_not_is_said_at_its_place(
    read: Callable[..., Recipe], lines: str, column: int, what: str
) -> None:
    assert gaps(read(lines)) == [(f"recipe.yaml:3:{column}", f"{what} is not built yet")]


@pytest.mark.parametrize(
    ("source", "column", "what"),
    [
        ("path: x, format: nemo", 19, "this format"),
        ("path: x, checkpoint: 5", 19, "choosing a checkpoint"),
    ],
)
def test_sources_that_cannot_be_read_yet(
    read: Callable[..., Recipe], source: str, column: int, what: str
) -> None:
    recipe = read(head=f"version: 1\nsource: {{{source}}}\n")
    assert gaps(recipe) == [(f"recipe.yaml:2:{column}", f"{what} is not built yet")]


def test_every_field_is_built_or_listed() -> None:
    """A field of the contract is either known to work, or in the table of what does not."""
    listed = {gap.path for gap in _FIELDS}
    fields = {("source", name) for name in Source.model_fields}
    fields |= {("output", name) for name in Output.model_fields}
    fields |= {("validate", name) for name in Validation.model_fields}
    assert fields - listed == {
        *(
            ("source", name)
            for name in ("path", "repo", "revision", "subfolder", "files", "weights", "ranks")
        ),
        *(("source", name) for name in ("on_duplicate", "refuse_dangerous", "assets_from")),
        *(("output", name) for name in ("path", "max_shard_size", "filename", "disk")),
        *(
            ("validate", name)
            for name in ("tensors", "architecture", "logits", "reference", "trust_remote_code")
        ),
    }
    assert listed - fields <= {("dtype",), ("lora",)}


def test_everything_is_said_at_once_and_overrides_are_named(read: Callable[..., Recipe]) -> None:
    recipe = read("output: {path: '${config.x}'}\n", "source.checkpoint=5")
    assert [subject for subject, _ in gaps(recipe)] == [
        "--set source.checkpoint",
        "recipe.yaml:3:10",
    ]


def test_a_part_that_a_command_ignores(read: Callable[..., Recipe]) -> None:
    recipe = read("publish: {repo: a/b}")
    assert gaps(recipe.model_copy(update={"publish": None})) == []
