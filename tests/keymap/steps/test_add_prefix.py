from __future__ import annotations

from collections.abc import Callable

import pytest

from hfconvert.errors import UserError
from hfconvert.keymap.steps.add_prefix import add_prefix
from hfconvert.tensors.checkpoint import Checkpoint

Make = Callable[..., Checkpoint]
Where = Callable[..., str]


def test_every_name_gets_the_prefix(checkpoint: Make, where: Where) -> None:
    after = add_prefix("model.", where)(checkpoint(["a", "model.b"])).checkpoint
    assert list(after) == ["model.a", "model.model.b"]
    assert after["model.a"].sources == ("a",)
    assert after["model.a"].steps == ("add_prefix model.",)


def test_wildcards_in_a_prefix_are_plain_text(checkpoint: Make, where: Where) -> None:
    assert list(add_prefix("*{i}", where)(checkpoint(["a"])).checkpoint) == ["*{i}a"]


def test_an_empty_prefix_and_an_empty_checkpoint_are_refused(
    checkpoint: Make, where: Where
) -> None:
    with pytest.raises(UserError, match="the prefix is empty"):
        add_prefix("", where)
    with pytest.raises(UserError, match="matched 0 keys"):
        add_prefix("model.", where)(checkpoint([]))
