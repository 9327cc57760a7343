"""Whatever stands in a recipe: a recipe results, or UserError with exit 2; nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hfconvert.errors import Exit, UserError
from hfconvert.recipe import Recipe, load, parse
from hfconvert.recipe.bulk import parse_bulk
from hfconvert.recipe.models import Root
from hfconvert.recipe.not_built import not_built
from hfconvert.recipe.steps import STEPS

WORDS = st.sampled_from(
    [
        *("version", "source", "key_map", "dtype", "lora", "output", "validate", "publish", "repo"),
        *(
            "path",
            "revision",
            "files",
            "format",
            "ranks",
            "from",
            "into",
            "layout",
            "heads",
            "rules",
        ),
        *(
            "kv_heads",
            "adapters",
            "adapter",
            "logits",
            "tensors",
            "max_shard_size",
            "name",
            "default",
        ),
        *(
            "off",
            "keep",
            "bfloat16",
            "null",
            "true",
            "1",
            "0",
            "-3",
            "1.5",
            "1e999",
            "5GB",
            "org/model",
        ),
        *(
            "./x",
            "*",
            "'*.bias'",
            "${config.x}",
            "${",
            "'{i}.*'",
            "~",
            "&a",
            "*a",
            "!!str",
            "<<",
            "",
        ),
        *STEPS,
    ]
)
GLUE = st.sampled_from(
    [": ", ":\n  ", "\n", "\n- ", "\n  - ", "{", "}", "[", "]", ", ", " ", "? ", "'"]
)
YAMLISH = st.lists(st.tuples(WORDS, GLUE)).map(lambda parts: "".join(a + b for a, b in parts))
VALUE = st.recursive(
    WORDS.filter(lambda word: word[:1] not in {"*", "&", "!", "$"}),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(WORDS, inner, max_size=3).map(
            lambda entries: (
                "{" + ", ".join(f"'{key}': {value}" for key, value in entries.items()) + "}"
            )
        )
    ),
    max_leaves=12,
)


def check(text: str, *overrides: str) -> None:
    for read in (parse, parse_bulk):
        found = outcome(partial(read, text, "recipe.yaml", overrides))
        if isinstance(found, UserError):
            assert found.exit == Exit.RECIPE
            assert all(problem.subject and problem.what for problem in found.problems)
            str(found).encode()
        elif isinstance(found, Recipe):
            not_built(found)


def outcome(read: Callable[[], Root]) -> Root | UserError:
    try:
        return read()
    except UserError as error:
        return error


@given(st.text())
@example('a: "\\UFFFFFFFF"')
@example("\ud800")
@example("%TAG ! tag:x,2000:\n---\n!a b")
@example("a: !<%FF> b")
def test_any_text(text: str) -> None:
    check(text)


@given(YAMLISH)
def test_anything_like_yaml(text: str) -> None:
    check(text)
    check("version: 1\nsource: {path: x}\n" + text)


@example("key_map", "true")
@example("source", "[]")
@given(
    st.sampled_from(["source", "key_map", "dtype", "lora", "output", "validate", "publish"]), VALUE
)
def test_any_value_of_any_key(key: str, value: str) -> None:
    check(
        f"version: 1\nsource: {{path: x}}\n{key}: {value}\n".replace(
            "source: {path: x}\nsource", "source"
        )
    )


@given(st.sampled_from([*STEPS]), VALUE)
def test_any_step(name: str, value: str) -> None:
    check(f"version: 1\nsource: {{path: x}}\nkey_map:\n- {name}: {value}\n")


@given(st.lists(st.tuples(st.lists(WORDS, max_size=4).map(".".join), WORDS | VALUE), max_size=3))
def test_any_override(overrides: list[tuple[str, str]]) -> None:
    check(
        "version: 1\nsource: {path: x}\nkey_map: [{drop: [a]}]\n",
        *(f"{path}={value}" for path, value in overrides),
    )


@given(st.text())
def test_any_text_as_an_override(text: str) -> None:
    check("version: 1\nsource: {path: x}\n", text, f"dtype={text}", f"{text}=x")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "recipe.yaml"


@given(data=st.binary() | YAMLISH.map(str.encode))
def test_any_bytes(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    found = outcome(lambda: load(file))
    assert isinstance(found, Recipe | UserError)
