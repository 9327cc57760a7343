from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.applied import Applied
from hfconvert.keymap.apply import apply
from hfconvert.keymap.families import table
from hfconvert.keymap.families.resolve import Values, canonical, resolve
from hfconvert.recipe.steps import FamilyOptions

Any_ = Callable[..., Any]

FUSED = """
about: a test
options:
  heads: {about: Attention heads., from: [config.n_head, args.num_attention_heads]}
  kv_heads: {about: Key-value heads., from: [args.num_query_groups], default: 2}
  tied: {about: whether the head is the embedding, from: [config.tied], default: false}
signature: ["*.qkv.weight"]
target: ["l.{i}.{x}.weight", "embed"]
steps:
  - rename: {"old.{i}.qkv.weight": "h.{i}.qkv.weight", "never.*": "*"}
  - drop: ["*._extra_state"]
  - qkv:
      from: "h.{i}.qkv.*"
      into: ["l.{i}.q.*", "l.{i}.k.*", "l.{i}.v.*"]
      layout: interleaved
      heads: "${options.heads}"
      kv_heads: "${options.kv_heads}"
  - when: {tied: false}
    steps: [{rename: {head: "l.0.head.weight"}}]
config:
  model_type: llama
  num_attention_heads: "${options.heads}"
  num_key_value_heads: "${options.kv_heads}"
  tie_word_embeddings: "${options.tied}"
  rope: {theta: "${options.heads}", kinds: [a, "${options.kv_heads}"]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fused.yaml").write_text(FUSED)
    monkeypatch.setattr(table, "FOLDER", tmp_path)
    return tmp_path


def _where(*path: object) -> str:
    return ".".join(map(str, path)) or "here"


def _family(**options: Any) -> FamilyOptions:
    return FamilyOptions.model_validate({"name": "fused", **options})


def test_options_come_from_the_recipe_then_the_source_then_the_table() -> None:
    values = Values({"n_head": 4}, {"num_attention_heads": 8, "num_query_groups": 1})
    steps = resolve(_family(kv_heads=4), values, _where).steps
    qkv: Any = steps[2]
    assert (qkv.qkv.heads, qkv.qkv.kv_heads) == (4, 4)
    qkv = resolve(_family(), Values({}, values.args), _where).steps[2]
    assert (qkv.qkv.heads, qkv.qkv.kv_heads) == (8, 1)


def test_every_default_that_is_used_is_a_finding() -> None:
    found = resolve(_family(heads=4, tied=True), Values(), _where)
    assert [(one.level, one.message) for one in found.findings] == [
        ("info", "fused: `kv_heads` is taken as `2` (Key-value heads.)")
    ]
    assert "fused: `tied`" in resolve(_family(heads=4), Values(), _where).findings[1].message


def test_missing_geometry_names_where_it_was_looked_for() -> None:
    with pytest.raises(UserError) as caught:
        resolve(_family(), Values(), _where)
    (problem,) = caught.value.problems
    assert problem.exit == Exit.RECIPE
    assert "the geometry is missing: `heads`" in problem.what
    assert "`config.n_head` or `args.num_attention_heads`" in problem.why
    assert "family: {name: fused, heads: ...}" in problem.do


def test_an_option_that_the_family_does_not_have() -> None:
    with pytest.raises(UserError, match=r"kvheads: .* has no option `kvheads`") as caught:
        resolve(_family(heads=4, kvheads=2), Values(), _where)
    assert "did you mean `kv_heads`?" in caught.value.problems[0].why


def test_a_value_that_its_step_refuses() -> None:
    with pytest.raises(UserError, match="heads"):
        resolve(_family(heads=-4), Values(), _where)


def test_the_configuration_has_values_of_every_type() -> None:
    found = resolve(_family(heads=4, tied=True), Values(), _where)
    assert found.config == {
        "model_type": "llama",
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
        "rope": {"theta": 4, "kinds": ["a", 2]},
    }


def test_the_digest_sees_what_a_family_stands_for(step: Any_, folder: Path) -> None:
    key_map = [step("drop", ("x",)), step("family", {"name": "fused", "heads": 4})]
    before = canonical(key_map, Values(), _where)
    assert before[0] == {"drop": ["x"]}
    assert before[1]["family"] == {"name": "fused", "heads": 4}
    assert [next(iter(one)) for one in before[1]["steps"]] == ["rename", "drop", "qkv", "rename"]
    (folder / "fused.yaml").write_text(FUSED.replace("_extra_state", "extra_state"))
    assert canonical(key_map, Values(), _where) != before
    assert canonical(key_map, Values({}, {"num_query_groups": 4}), _where) != before


def _apply(holding: Any_, step: Any_, arrays: dict[str, Any]) -> Applied:
    key_map = [step("family", {"name": "fused"})]
    values = Values({"n_head": 4}, {"num_query_groups": 2})
    return apply(holding(arrays), key_map, _where, values)


def test_steps_that_match_nothing_are_passed_over(holding: Any_, step: Any_) -> None:
    arrays = {"old.0.qkv.weight": np.zeros((8, 2), "<u2"), "embed": np.zeros((3, 2), "<u2")}
    result = _apply(holding, step, arrays)
    assert list(result.checkpoint) == ["l.0.q.weight", "l.0.k.weight", "l.0.v.weight", "embed"]
    assert result.checkpoint["l.0.q.weight"].steps == ("rename", "qkv interleaved")
    messages = [one.message for one in result.findings]
    assert "fused: 2 of 4 steps found names" in messages
    assert not [one for one in result.findings if one.level == "warning"]


def test_names_that_the_family_does_not_know(holding: Any_, step: Any_) -> None:
    arrays: dict[str, Any] = {f"h.{i}.qkv.weight": np.zeros((8, 2), "<u2") for i in range(2)}
    arrays |= {f"h.{i}.adapter.w": np.zeros(2, "<u2") for i in range(2)}
    with pytest.raises(UserError, match=r"2 names are not known .*`h\.\{0\.\.1\}\.adapter\.w`"):
        _apply(holding, step, arrays)


def test_a_checkpoint_of_another_kind(holding: Any_, step: Any_) -> None:
    with pytest.raises(UserError, match="no step of the family `fused` matches a name"):
        _apply(holding, step, {"x": np.zeros(2, "<u2")})


def test_a_shape_that_does_not_fit_names_the_step_of_the_table(holding: Any_, step: Any_) -> None:
    with pytest.raises(
        UserError, match=r"key_map\.0\.family \(fused, step 3\): .* does not divide"
    ):
        _apply(holding, step, {"h.0.qkv.weight": np.zeros((9, 2), "<u2")})
