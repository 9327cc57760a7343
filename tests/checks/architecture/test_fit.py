"""How tensors fit a class, without torch: names, ties, buffers, shapes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hfconvert.checks.architecture.fit import Found, Wanted, fitted

LAYERS = [f"model.layers.{layer}.{part}" for layer in range(3) for part in ("q.weight", "q.bias")]
NAMES = ["model.embed.weight", *LAYERS, "lm_head.weight"]


def wanted(**more: Any) -> Wanted:
    shapes = dict.fromkeys(NAMES, (4, 4))
    given: dict[str, Any] = {"disk": shapes, "native": shapes, "floats": set(NAMES), "ties": {}}
    return Wanted(**given | more)


def found(names: list[str], shape: tuple[int, ...] = (4, 4)) -> dict[str, Found]:
    return {name: Found(is_float=True, shape=shape) for name in names}


def same(name: str) -> str:
    return name


def test_equal_names_and_shapes_fit() -> None:
    answer = fitted(wanted(), found(NAMES), same)
    assert answer["exact"] == {"missing": [], "unexpected": [], "mismatched": [], "cause": None}
    assert answer["loader"] == answer["exact"]
    assert (answer["expected"], answer["found"]) == (8, 8)


@given(st.sets(st.sampled_from(NAMES)))
def test_what_is_left_out_is_missing(absent: set[str]) -> None:
    answer = fitted(wanted(), found([name for name in NAMES if name not in absent]), same)
    assert set(answer["exact"]["missing"]) == absent


def test_a_prefix_that_would_mend_most_names_is_the_cause() -> None:
    short = [name.removeprefix("model.") for name in NAMES]
    answer = fitted(wanted(), found(short), same)
    assert answer["exact"]["missing"] == NAMES[:-1]
    assert answer["exact"]["unexpected"] == short[:-1]
    assert answer["exact"]["cause"] == ["add", "model.", 7]


def test_the_loader_may_know_better_than_the_names() -> None:
    short = [name.removeprefix("model.") for name in NAMES]
    answer = fitted(
        wanted(), found(short), lambda name: name if "lm_head" in name else f"model.{name}"
    )
    assert answer["loader"]["missing"] == []
    assert answer["loader"]["unexpected"] == []
    assert len(answer["exact"]["missing"]) == 7


def test_either_end_of_a_tie_is_enough() -> None:
    ties = {"lm_head.weight": "model.embed.weight"}
    for absent in ("lm_head.weight", "model.embed.weight"):
        answer = fitted(wanted(ties=ties), found([n for n in NAMES if n != absent]), same)
        assert answer["exact"]["missing"] == []
        assert answer["ties"] == 1
    answer = fitted(wanted(ties=ties), found(LAYERS), same)
    assert answer["exact"]["missing"] == ["model.embed.weight", "lm_head.weight"]


def test_any_of_three_that_are_tied_is_enough() -> None:
    tied = ["lm_head.weight", "decoder.embed.weight"]
    names = [*NAMES, tied[1]]
    shapes = dict.fromkeys(names, (4, 4))
    ties = dict.fromkeys(tied, "model.embed.weight")
    for kept in ("model.embed.weight", *tied):
        answer = fitted(wanted(disk=shapes, native=shapes, ties=ties), found([*LAYERS, kept]), same)
        assert answer["exact"]["missing"] == []
        assert answer["ties"] == 2


def test_shapes_and_integers_are_mismatched() -> None:
    tensors = found(NAMES)
    tensors["lm_head.weight"] = Found(is_float=True, shape=(4, 5))
    tensors["model.embed.weight"] = Found(is_float=False, shape=(4, 4))
    answer = fitted(wanted(), tensors, same)
    assert answer["exact"]["mismatched"] == [
        ["model.embed.weight", "integers", "floating point"],
        ["lm_head.weight", "[4, 5]", "[4, 4]"],
    ]


def test_what_no_class_stores_any_more_is_passed_over_and_counted() -> None:
    extra = {
        "model.layers.0.attn.bias": Found(is_float=False, shape=(1, 1, 8, 8)),
        "model.layers.0.attn.masked_bias": Found(is_float=True, shape=()),
        "model.layers.0.self_attn.rotary_emb.inv_freq": Found(is_float=True, shape=(2,)),
        "embeddings.position_ids": Found(is_float=False, shape=(1, 8)),
        "model.own_buffer": Found(is_float=True, shape=(2,)),
        "decoder.odd": Found(is_float=True, shape=(2,)),
        "model.layers.0.q._extra_state": Found(is_float=False, shape=(0,)),
    }
    rules = wanted(buffers={"model.own_buffer"}, may_exceed=(r"decoder\.odd",))
    answer = fitted(rules, found(NAMES) | extra, same)
    assert answer["exact"]["unexpected"] == []
    assert (answer["buffers"], answer["extra_state"]) == (6, 1)


def test_a_bias_of_attention_that_is_no_mask_is_unexpected() -> None:
    answer = fitted(wanted(), found([*NAMES, "model.layers.0.attn.bias"]), same)
    assert answer["exact"]["unexpected"] == ["model.layers.0.attn.bias"]


def test_what_the_class_says_may_be_absent_is_not_missing() -> None:
    rules = wanted(may_miss=(r"q\.bias$",))
    answer = fitted(rules, found([name for name in NAMES if "bias" not in name]), same)
    assert answer["exact"]["missing"] == []


FUSED = Wanted(
    disk={"experts.0.w": (2, 3), "experts.1.w": (2, 3)},
    native={"experts.w": (2, 2, 3)},
    floats={"experts.w"},
    ties={},
)


def fuse(name: str) -> str:
    return "experts.w" if name.startswith("experts.") else name


def test_a_tensor_that_is_stored_in_parts_needs_all_of_them() -> None:
    answer = fitted(FUSED, found(["experts.0.w", "experts.1.w"], (2, 3)), fuse)
    assert answer["loader"]["missing"] == []
    answer = fitted(FUSED, found(["experts.1.w"], (2, 3)), fuse)
    assert answer["loader"]["missing"] == ["experts.0.w"]


def test_a_tensor_that_is_stored_in_parts_may_come_whole() -> None:
    answer = fitted(FUSED, found(["experts.w"], (2, 2, 3)), fuse)
    assert answer["exact"]["missing"] == []
    assert answer["exact"]["mismatched"] == []
    answer = fitted(FUSED, found(["experts.w"], (2, 3, 2)), fuse)
    assert answer["exact"]["mismatched"] == [["experts.w", "[2, 3, 2]", "[2, 2, 3]"]]
