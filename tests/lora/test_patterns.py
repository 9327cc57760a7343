"""Configurations that were written to keep whoever matches them busy, or hold what PEFT never writes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hfconvert.errors import UserError
from hfconvert.lora.patterns import unsafe_patterns
from hfconvert.lora.settings import Settings
from hfconvert.planning.plan import Plan

REPEATED = "repeats what repeats itself, or branches that begin alike"


# As training scripts write it for models that see.
OF_SCRIPTS = (
    r"(?:.*?(?:language|text).*?(?:self_attn|mlp).*?(?:q_proj|v_proj).*?)"
    r"|(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|mlp)\.(?:(?:q_proj|v_proj)))"
)


def reasons(pattern: str, field: str = "target_modules") -> list[str]:
    value: Any = {pattern: 4} if field.endswith("_pattern") and field[0] in "ra" else [pattern]
    value = pattern if field in ("target_modules", "exclude_modules") else value
    settings = Settings({"peft_type": "LORA", field: value}, "test")
    return [one.what.partition(", which ")[2] for one in unsafe_patterns(settings, "adapter")]


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a*)*",
        "(?:a|aa)+$",
        "([a-z]+)*x",
        "(?P<name>(x+)y?)+",
        "((a?){30})",
        "(a{1,5}){2,}",
        "(?:(?:.*,)+)",
        r"(\w+\s?)*\Z",
        "(a++)+b",
        "(?=(a+)+$)",
    ],
)
def test_repetitions_within_repetitions_are_refused(pattern: str) -> None:
    assert reasons(pattern) == [REPEATED]


@pytest.mark.parametrize(
    "pattern",
    [
        "q_proj",
        r".*\.q_proj",
        r"(.*\.)?(q|v)_proj$",
        r"model\.layers\.(0|1|2)\..*(q|k|v|o)_proj",
        r"^(?!.*visual)(?=.*layers).*(?:q_proj|v_proj)",
        OF_SCRIPTS,
        "(layers|blocks)*",
        r"[(+*?)]+",
        r"\(a+\)+",
        "(ab){1}",
        "(a+){0,1}",
        "a{b",
    ],
)
def test_patterns_of_real_adapters_are_taken(pattern: str) -> None:
    assert reasons(pattern) == []


def test_many_repetitions_in_a_row_are_refused() -> None:
    assert reasons(".*a" * 5) == []
    assert reasons(".*a" * 6) == ["could take 1e+08 steps for one name"]
    assert reasons("a?" * 30 + "a" * 30) == ["could take 1e+09 steps for one name"]
    assert reasons("(a|ab)" * 30) == ["could take 1e+09 steps for one name"]
    assert reasons("(a|b)" * 30) == []
    assert reasons("a" * 30_000) == ["has 30000 characters"]


@pytest.mark.parametrize(
    "field",
    ["exclude_modules", "modules_to_save", "layers_pattern", "rank_pattern", "alpha_pattern"],
)
def test_every_field_with_patterns_is_looked_at(field: str) -> None:
    assert reasons("(a+)+$", field) == [REPEATED]


@pytest.fixture
def changed(zoo: Path, tmp_path: Path) -> Callable[..., Path]:
    """An adapter with other fields in its configuration."""

    def change(**fields: Any) -> Path:
        folder = tmp_path / "adapter"
        shutil.copytree(zoo / "lora_plain/adapter", folder, dirs_exist_ok=True)
        path = folder / "adapter_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
        return folder

    return change


def test_a_hostile_configuration_is_refused_before_it_is_matched(
    changed: Callable[..., Path], zoo: Path, planned: Callable[..., Plan]
) -> None:
    adapter = changed(target_modules="(([a-z._]|[0-9])+)+!", rank_pattern={"(": 3})
    with pytest.raises(UserError) as error:
        planned(zoo / "base/llama", adapter)
    assert error.value.exit == 3
    assert [problem.what.partition(" ")[0] for problem in error.value.problems] == [
        "`target_modules`",
        "`rank_pattern`",
    ]
    assert "is no regular expression" in str(error.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("target_modules", 5),
        ("target_modules", ["q_proj", 1]),
        ("exclude_modules", {"a": 1}),
        ("modules_to_save", "head"),
        ("r", "4"),
        ("r", -1),
        ("r", True),
        ("lora_alpha", [8]),
        ("rank_pattern", ["q_proj"]),
        ("alpha_pattern", {"q_proj": "8"}),
        ("layers_to_transform", "1"),
        ("layers_to_transform", [1.5]),
        ("layers_pattern", 1),
        ("target_parameters", "experts"),
        ("trainable_token_indices", {"embed_tokens": 3}),
        ("trainable_token_indices", [-1]),
        ("peft_version", 0.18),
    ],
)
def test_fields_of_another_kind_are_named(
    field: str,
    value: Any,
    changed: Callable[..., Path],
    zoo: Path,
    planned: Callable[..., Plan],
) -> None:
    with pytest.raises(UserError) as error:
        planned(zoo / "base/llama", changed(**{field: value}, bias=3))
    assert error.value.exit == 3
    assert len(error.value.problems) == 2
    assert f"`{field}` is {json.dumps(value)}" in str(error.value)
