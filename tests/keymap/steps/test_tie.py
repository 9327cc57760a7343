from __future__ import annotations

from collections.abc import Callable

import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.steps.rename import rename
from hfconvert.keymap.steps.tie import tie
from hfconvert.tensors.checkpoint import Checkpoint, Dropped, Entry
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf

Make = Callable[..., Checkpoint]
Where = Callable[..., str]


def test_the_left_name_is_left_out_and_the_pair_recorded(checkpoint: Make, where: Where) -> None:
    before = rename({"head": "lm_head.weight"}, where)(checkpoint(["embed", "head"])).checkpoint
    result = tie({"lm_head.weight": "embed"}, where)(before)
    assert list(result.checkpoint) == ["embed"]
    assert result.checkpoint.dropped == (Dropped("head", "tie: lm_head.weight = embed"),)
    (claimed,) = result.ties
    assert (claimed.kept, claimed.dropped, claimed.subject) == (
        "embed",
        "lm_head.weight",
        "lm_head.weight",
    )
    assert claimed.kept_entry.tensor is before["embed"].tensor
    assert claimed.dropped_entry.tensor is before["lm_head.weight"].tensor


def test_captures_pair_names(checkpoint: Make, where: Where) -> None:
    names = ["a.emb", "b.emb", "a.head", "b.head"]
    result = tie({"{m}.head": "{m}.emb"}, where)(checkpoint(names))
    assert list(result.checkpoint) == ["a.emb", "b.emb"]
    assert [(one.kept, one.dropped) for one in result.ties] == [
        ("a.emb", "a.head"),
        ("b.emb", "b.head"),
    ]


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ({"head": "other"}, "`head` cannot be tied to `other`, which is not there"),
        ({"head": "head"}, "`head` cannot be tied to `head`, which the same step leaves out"),
        ({"head": "mid", "mid": "embed"}, "`head` cannot be tied to `mid`, which the same step"),
        ({"other": "embed"}, "the step matched 0 keys: `other`"),
    ],
)
def test_what_cannot_be_a_tie(
    checkpoint: Make, where: Where, pairs: dict[str, str], says: str
) -> None:
    with pytest.raises(UserError, match=says) as caught:
        tie(pairs, where)(checkpoint(["embed", "mid", "head"]))
    assert caught.value.exit == Exit.RECIPE


def test_tensors_of_different_shapes_are_no_tie(checkpoint: Make, where: Where) -> None:
    before = checkpoint(["embed", "head"])
    source = next(iter(before["head"].tensor.needs(((0, 2),)))).source
    longer = Leaf.packed(TensorSpec(BY_CODE["F32"], (3,)), source, 0)
    changed = before.with_entries({"embed": before["embed"], "head": Entry(longer, ("head",))})
    with pytest.raises(UserError, match=r"`head` is F32 \[3\] and `embed` is F32 \[2\]"):
        tie({"head": "embed"}, where)(changed)
