"""`lora`, `output`, `validate` and `publish`: what each takes and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hfconvert.recipe import Location, Recipe

ADAPTER = "adapters: [{adapter: org/a}]"


def test_lora_defaults(read: Callable[..., Recipe]) -> None:
    lora = read(f"lora: {{{ADAPTER}}}").lora
    assert lora is not None
    assert lora.model_dump(exclude={"adapters"}) == {
        "base": None,
        "peft_version": None,
        "compute_dtype": "float32",
        "engine": "auto",
        "lora_alpha": None,
        "on_tie": "untie",
        "base_quantization": "refuse",
    }
    (adapter,) = lora.adapters
    assert (adapter.adapter, adapter.revision, adapter.weight) == (
        Location(repo="org/a"),
        "main",
        1.0,
    )


@pytest.mark.parametrize(
    ("adapter", "location"),
    [
        ("adapter: org/a", Location(repo="org/a", revision="main")),
        ("adapter: org/a, revision: v2", Location(repo="org/a", revision="v2")),
        ("adapter: org/a@v3", Location(repo="org/a", revision="v3")),
        ("adapter: ./a", Location(path=Path("a"))),
    ],
)
def test_an_adapter_is_a_path_or_a_revision_of_a_repository(
    read: Callable[..., Recipe], adapter: str, location: Location
) -> None:
    lora = read(f"lora: {{adapters: [{{{adapter}}}]}}").lora
    assert lora is not None
    assert lora.adapters[0].location == location


def test_numbers_of_lora(read: Callable[..., Recipe]) -> None:
    lora = read(
        "lora: {adapters: [{adapter: ./a, weight: -1}], lora_alpha: 16, peft_version: 0.10}"
    )
    assert lora.lora is not None
    assert (lora.lora.adapters[0].weight, lora.lora.lora_alpha) == (-1.0, 16.0)
    assert lora.lora.peft_version == "0.10"


def test_output_defaults(read: Callable[..., Recipe]) -> None:
    assert read().output.model_dump() == {
        "path": None,
        "max_shard_size": 5_000_000_000,
        "filename": "auto",
        "disk": "normal",
    }


def test_output(read: Callable[..., Recipe]) -> None:
    lines = "output: {path: out, max_shard_size: 1GiB, filename: a.safetensors, disk: bounded}"
    assert read(lines).output.model_dump() == {
        "path": Path("out"),
        "max_shard_size": 1 << 30,
        "filename": "a.safetensors",
        "disk": "bounded",
    }


def test_validate_defaults(read: Callable[..., Recipe]) -> None:
    assert read().validation.model_dump() == {
        "tensors": "full",
        "architecture": "auto",
        "logits": "auto",
        "reference": None,
        "trust_remote_code": False,
    }


@pytest.mark.parametrize(
    ("written", "inputs", "min_cosine", "max_effect_error"),
    [
        ("{}", "auto", 0.999, 0.05),
        ("{inputs: auto, min_cosine: 1}", "auto", 1.0, 0.05),
        ("{inputs: [hello, 12]}", ("hello", "12"), 0.999, 0.05),
        ("{inputs: prompts.txt, max_effect_error: 0}", Path("prompts.txt"), 0.999, 0.0),
    ],
)
def test_logits(
    read: Callable[..., Recipe],
    written: str,
    inputs: Any,
    min_cosine: float,
    max_effect_error: float,
) -> None:
    logits = read(f"validate: {{logits: {written}}}").validation.logits
    assert not isinstance(logits, str)
    assert (logits.inputs, logits.min_cosine, logits.max_effect_error) == (
        inputs,
        min_cosine,
        max_effect_error,
    )


def test_words_that_yaml_would_turn_into_booleans(read: Callable[..., Recipe]) -> None:
    checks = read("validate: {tensors: off, architecture: off, logits: off}").validation
    assert (checks.tensors, checks.architecture, checks.logits) == ("off", "off", "off")


def test_publish_defaults(read: Callable[..., Recipe]) -> None:
    assert read().publish is None
    publish = read("publish: {repo: org/new}").publish
    assert publish is not None
    assert publish.model_dump() == {
        "how": "pull_request",
        "repo": "org/new",
        "private": True,
        "replace_weights": False,
        "adapter": "none",
    }


@pytest.mark.parametrize("adapter", ["none", "beside", "org/adapter"])
def test_where_the_adapter_goes(read: Callable[..., Recipe], adapter: str) -> None:
    publish = read(f"publish: {{repo: a/b, adapter: {adapter}}}\nlora: {{{ADAPTER}}}").publish
    assert publish is not None
    assert publish.adapter == adapter


@pytest.mark.parametrize(
    ("lines", "column", "what"),
    [
        ("lora: {}", 1, "`adapters` is missing"),
        ("lora: {adapters: []}", 18, "`adapters` must have at least 1 item, not 0"),
        ("lora: {adapters: [org/a]}", 19, "item 1 of `adapters` must be a mapping, not `org/a`"),
        ("lora: {adapters: [{weight: 1}]}", 19, "`adapter` is missing"),
        (
            "lora: {adapters: [{adapter: org/a, weight: '1'}]}",
            44,
            "`weight` must be a number, not `1`",
        ),
        (
            "lora: {adapters: [{adapter: org/a, weight: 1e999}]}",
            44,
            "`weight` must be a finite number",
        ),
        ("lora: {adapters: [{adapter: a@b@c}]}", 29, "`a@b@c` is neither an existing path"),
        (
            "lora: {adapters: [{adapter: a/b@x, revision: y}]}",
            46,
            "the revision is given twice",
        ),
        (f"lora: {{{ADAPTER}, lora_alpha: 0}}", 50, "`lora_alpha` must be greater than 0"),
        (
            f"lora: {{{ADAPTER}, compute_dtype: bfloat16}}",
            53,
            "`compute_dtype` cannot be `bfloat16`",
        ),
        (f"lora: {{{ADAPTER}, engine: peft}}", 46, "`engine` cannot be `peft`"),
        (f"lora: {{{ADAPTER}, on_tie: keep}}", 46, "`on_tie` cannot be `keep`"),
        ("output: {max_shard_size: 5}", 26, "`5` is a bare number"),
        ("output: {max_shard_size: 5000000000}", 26, "`5000000000` is a bare number"),
        ("output: {max_shard_size: '5'}", 26, "`5` is not a size"),
        ("output: {max_shard_size: 5GX}", 26, "`5GX` is not a size"),
        ("output: {max_shard_size: null}", 26, "`max_shard_size` must be a size, not null"),
        ("output: {filename: a/b.safetensors}", 20, "`a/b.safetensors` is not the name of a"),
        ("output: {filename: model.bin}", 20, "`model.bin` is not the name of a safetensors file"),
        ("output: {disk: small}", 16, "`disk` cannot be `small`"),
        ("output: out", 9, "`output` must be a mapping, not `out`"),
        ("validate: {tensors: false}", 21, "`tensors` cannot be `false`"),
        ("validate: {architecture: no}", 26, "`architecture` cannot be `no`"),
        ("validate: {logits: yes}", 20, "`logits` cannot be `yes`"),
        ("validate: {logits: {min_cosine: 2}}", 33, "`min_cosine` must be less than or equal to 1"),
        ("validate: {logits: {inputs: []}}", 29, "`inputs` must have at least 1 item, not 0"),
        ("validate: {logits: {min_cosin: 1}}", 21, "unknown key `min_cosin`"),
        ("validate: {reference: a}", 23, "`a` is neither an existing path nor org/name"),
        ("validate: {trust_remote_code: yes}", 31, "`trust_remote_code` must be true or false"),
        ("publish: true", 10, "`publish` must be a mapping, not `true`"),
        ("publish: {repo: a/b, how: pr}", 27, "`how` cannot be `pr`"),
        ("publish: {repo: a/b, private: 1}", 31, "`private` must be true or false, not `1`"),
        (f"publish: {{repo: a/b, adapter: a b}}\nlora: {{{ADAPTER}}}", 31, "`a b` is not the id"),
        ("publish: {repo: a/b, adapter: beside}", 31, "there is no adapter to publish"),
        ("publish: {}", 1, "no repository is named"),
        ("publish: {repo: a/b}\nvalidate: {tensors: off}", 21, "`tensors: off` never publishes"),
    ],
)
def test_refused(refuse: Callable[..., Any], lines: str, column: int, what: str) -> None:
    (problem,) = refuse(lines)
    line = 4 if "tensors: off" in lines else 3
    assert problem.subject == f"recipe.yaml:{line}:{column}"
    assert problem.what.startswith(what)


@pytest.mark.parametrize(
    ("publish", "where"),
    [("{}", "recipe.yaml:4:1"), ("{repo: org/model}", "recipe.yaml:4:17")],
)
def test_a_merge_is_published_elsewhere(
    refuse: Callable[..., Any], publish: str, where: str
) -> None:
    lines = f"lora: {{{ADAPTER}}}\npublish: {publish}"
    (problem,) = refuse(lines, head="version: 1\nsource: {repo: org/model}\n")
    assert (problem.subject, problem.what) == (where, "a merge is not published to its source")


def test_a_repository_publishes_to_itself_unless_it_is_a_merge(read: Callable[..., Recipe]) -> None:
    recipe = read("publish: {}", head="version: 1\nsource: {repo: org/model}\n")
    assert recipe.publish is not None
    assert recipe.publish.repo is None
