"""The recipe as the contract writes it out: every key, every default, every form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hfconvert.errors import UserError
from hfconvert.recipe import parse
from hfconvert.recipe.bulk import parse_bulk
from hfconvert.recipe.document import compose
from hfconvert.recipe.positions import KeyPath

DEFAULTS = """version: 1
source:
  repo: org/model              # or path: ./checkpoint
  revision: main               # resolved once to a commit
  subfolder: null
  files: null
  format: auto
  weights: null
  checkpoint: null
  ranks: null
  assets_from: null
  on_duplicate: error
  refuse_dangerous: true
dtype: keep
output:
  path: null
  max_shard_size: 5GB          # decimal; a bare number is refused
  filename: auto
  disk: normal
validate:
  tensors: full
  architecture: auto
  logits: auto
  reference: null
  trust_remote_code: false
"""

KEY_MAP = """
key_map:                       # ordered; a step is a mapping with one key
  - strip_prefix: [module., _orig_mod.]
  - family: {name: megatron-llama}
  - rename: {"bert.encoder.layer.{i}.attention.self.query.*": "encoder.{i}.q.*"}
  - drop: ["*.attn.bias", "optimizer.*"]
  - join: {"*.linear_qkv.weight": 0, "*.linear_proj.weight": 1, "*norm*": replicated}
  - qkv: {from: "h.{i}.qkv.*", into: ["l.{i}.q.*", "l.{i}.k.*", "l.{i}.v.*"], layout: interleaved, heads: 32,
          kv_heads: 8}
  - split: {from: "mlp.{i}.fc1.weight", into: ["mlp.{i}.gate.weight", "mlp.{i}.up.weight"], dim: 0}
  - concat: {from: [a, b], into: c, dim: 0}
  - stack: {from: "e.{n}.w", into: "e.w", dim: 0}
  - unstack: {from: "e.w", into: "e.{n}.w", dim: 0}
  - transpose: ["*.c_fc.weight"]
  - add_prefix: "model."
  - permute_rope: {names: ["*.q.weight"], heads: 32, to: half}
  - resize: {"*.embed.weight": 32000}
  - tie: {"lm_head.weight": "model.embed_tokens.weight"}
  - untie: {"lm_head.weight": "model.embed_tokens.weight"}
  - dequantize: ["*"]
  - densify: ["*"]
  - qkv: {from: [q, k, v], into: x, layout: interleaved}
"""

MERGE = """
lora:
  adapters: [{adapter: org/adapter, revision: main, weight: 1.0}]
  base: null
  peft_version: null
  compute_dtype: float32
  engine: auto
  lora_alpha: null
  on_tie: untie
  base_quantization: refuse
publish:
  how: pull_request
  repo: org/merged
  private: true
  replace_weights: false
  adapter: none
"""


def leaves(value: Any, path: KeyPath = ()) -> Iterator[tuple[str, Any]]:
    """Every value of a document that is no mapping, by its path as `--set` writes it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    else:
        yield ".".join(map(str, path)), value


LEAVES = [*leaves(compose(DEFAULTS, "recipe.yaml").value)]


def test_every_default_is_what_is_left_out() -> None:
    minimal = parse("version: 1\nsource: {repo: org/model}\n", "recipe.yaml")
    assert parse(DEFAULTS, "recipe.yaml").model_dump() == minimal.model_dump()


def test_every_default_of_a_merge_is_what_is_left_out() -> None:
    short = "lora: {adapters: [{adapter: org/adapter}]}\npublish: {repo: org/merged}\n"
    long = parse(DEFAULTS + MERGE, "recipe.yaml")
    assert long.model_dump() == parse(DEFAULTS + short, "recipe.yaml").model_dump()


def test_the_whole_recipe_loads() -> None:
    recipe = parse(DEFAULTS + KEY_MAP + MERGE, "recipe.yaml")
    assert [step.name for step in recipe.key_map or ()] == [
        *("strip_prefix", "family", "rename", "drop", "join", "qkv", "split", "concat", "stack"),
        *("unstack", "transpose", "add_prefix", "permute_rope", "resize", "tie", "untie"),
        *("dequantize", "densify", "qkv"),
    ]


def test_every_key_has_its_place() -> None:
    recipe = parse(DEFAULTS, "recipe.yaml")
    for path, _ in LEAVES:
        line, column = (int(part) for part in recipe.position(*path.split(".")).split(":")[1:])
        text = DEFAULTS.splitlines()[line - 1]
        assert text[column - 1 :].startswith(f"{path.split('.')[-1]}:")


@pytest.mark.parametrize(("path", "value"), LEAVES, ids=str)
def test_every_key_can_be_set(path: str, value: Any) -> None:
    """Setting what stands there already changes nothing but the place."""
    before = parse(DEFAULTS, "recipe.yaml")
    written = value if isinstance(value, str) else json.dumps(value)
    after = parse(DEFAULTS, "recipe.yaml", [f"{path}={written}"])
    assert after.model_dump() == before.model_dump()
    assert after.position(*path.split(".")) == f"--set {path}"


@pytest.mark.parametrize("path", [path for path, _ in LEAVES])
def test_every_key_refuses_what_is_of_no_use_to_it(path: str) -> None:
    document = compose(DEFAULTS, "recipe.yaml").value
    assert path in dict(leaves(document))
    with pytest.raises(UserError, match=f"^--set {path}: "):
        parse(DEFAULTS, "recipe.yaml", [f"{path}=[{{}}]"])


@pytest.mark.parametrize(
    "dtype",
    ["keep", "bfloat16", '{default: bfloat16, rules: {"*norm*": float32}}'],
)
@pytest.mark.parametrize("logits", ["auto", "off", "{inputs: auto, min_cosine: 0.999}"])
def test_fields_of_several_forms(dtype: str, logits: str) -> None:
    text = f"version: 1\nsource: {{path: m}}\ndtype: {dtype}\nvalidate: {{logits: {logits}}}\n"
    recipe = parse(text, "recipe.yaml")
    assert recipe.dtype.default in {"keep", "bfloat16"}
    assert isinstance(recipe.validation.logits, str) == (logits in {"auto", "off"})


@pytest.mark.parametrize(
    "source", ["org: my-org", "repos: [a/b, c/d]", "collection: org/name-1a2b"]
)
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_bulk_files(source: str, engine: str) -> None:
    text = f"version: 1\n{source}\nengine: {engine}\nrecipe:\n" + "".join(
        f"  {line}\n" for line in DEFAULTS.replace("org/model", "${repo}").splitlines()
    )
    bulk = parse_bulk(text, "bulk.yaml")
    assert bulk.engine == engine
    assert bulk.recipe is not None
    assert bulk.recipe.source.repo == "${repo}"
    assert bulk.base == Path()
