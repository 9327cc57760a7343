from __future__ import annotations

from collections.abc import Callable

import pytest

from hfconvert.errors import UserError
from hfconvert.keymap.applied import is_untied
from hfconvert.keymap.steps.rename import rename
from hfconvert.keymap.steps.untie import untie
from hfconvert.tensors.checkpoint import Checkpoint

Make = Callable[..., Checkpoint]
Where = Callable[..., str]


def test_the_other_name_is_written_too(checkpoint: Make, where: Where) -> None:
    before = checkpoint(["embed", "norm"])
    after = untie({"head": "embed"}, where)(before).checkpoint
    assert list(after) == ["embed", "head", "norm"]
    assert after["head"].tensor is before["embed"].tensor
    assert after["head"].sources == ("embed",)
    assert after["head"].steps == ("untie embed",)
    assert [name for name in after if is_untied(after[name])] == ["head"]


def test_a_name_that_is_there_stays_and_is_marked(checkpoint: Make, where: Where) -> None:
    before = checkpoint(["embed", "head"])
    after = untie({"head": "embed"}, where)(before).checkpoint
    assert list(after) == ["embed", "head"]
    assert after["head"].tensor is before["head"].tensor
    assert after["head"].sources == ("head",)
    assert is_untied(after["head"])


def test_the_mark_survives_another_name(checkpoint: Make, where: Where) -> None:
    untied = untie({"head": "embed"}, where)(checkpoint(["embed"])).checkpoint
    after = rename({"*": "model.*"}, where)(untied).checkpoint
    assert {name: is_untied(entry) for name, entry in after.items()} == {
        "model.embed": False,
        "model.head": True,
    }


def test_captures_are_those_of_the_right_side(checkpoint: Make, where: Where) -> None:
    after = untie({"{m}.head": "{m}.emb"}, where)(checkpoint(["a.emb", "b.emb"])).checkpoint
    assert list(after) == ["a.emb", "a.head", "b.emb", "b.head"]


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ({"head": "other"}, "the step matched 0 keys: `other`"),
        ({"embed": "embed"}, "`embed` would be a copy of itself"),
        ({"head": "*"}, "`head` would be a copy of itself, or of several tensors"),
        ({"head.{i}": "embed"}, "which `embed` does not capture"),
        ({"__metadata__": "embed"}, "a name that no file can hold"),
    ],
)
def test_what_cannot_be_untied(
    checkpoint: Make, where: Where, pairs: dict[str, str], says: str
) -> None:
    with pytest.raises(UserError) as caught:
        untie(pairs, where)(checkpoint(["embed", "norm"]))
    assert says in str(caught.value)
