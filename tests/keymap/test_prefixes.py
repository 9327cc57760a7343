from __future__ import annotations

import pytest

from hfconvert.keymap.prefixes import WRAPPERS, Prefixes, Taken


@pytest.mark.parametrize(
    ("name", "prefixes", "expected"),
    [
        ("_orig_mod.a.w", ["_orig_mod."], "a.w"),
        ("module._orig_mod.a", ["_orig_mod.", "module."], "a"),
        ("_orig_mod.module.a", ["_orig_mod.", "module."], "a"),
        ("module.module.a", ["module."], "a"),
        ("model.model.a", ["model."], "model.a"),
        ("model.net.a", ["net.", "model."], "a"),
        ("net.model.a", ["net.", "model."], "a"),
        ("a.b.c", ["a.", "a.b."], "c"),
        ("model._orig_mod.a", ["model.", "_orig_mod."], "a"),
        ("model._orig_mod.net.a", ["model.net.", "_orig_mod."], "a"),
        ("x.model.a", ["model."], "x.model.a"),
        ("a._orig_mod.w", ["_orig_mod."], "a.w"),
        ("my_orig_mod.w", ["_orig_mod."], "my_orig_mod.w"),
        ("a.my_orig_mod.w", ["_orig_mod."], "a.my_orig_mod.w"),
        ("a._orig_mod", ["_orig_mod."], "a._orig_mod"),
        ("a._fsdp_wrapped_module.w", ["_orig_mod."], "a._fsdp_wrapped_module.w"),
        (
            "layers.0._fsdp_wrapped_module.attn._checkpoint_wrapped_module.q.weight",
            list(WRAPPERS),
            "layers.0.attn.q.weight",
        ),
        ("a._fsdp_wrapped_module._checkpoint_wrapped_module.w", list(WRAPPERS), "a.w"),
    ],
)
def test_prefixes_come_off(name: str, prefixes: list[str], expected: str) -> None:
    assert Prefixes.of(prefixes).take_off(name).name == expected


def test_what_was_taken_off_says_from_where() -> None:
    stripped = Prefixes.of(["model.", "_orig_mod.", "absent."]).take_off(
        "_orig_mod.model.a._orig_mod.w"
    )
    assert stripped == ("a.w", Taken(("_orig_mod.", "model."), ("_orig_mod.",)))
    assert stripped.taken.prefixes == ("_orig_mod.", "model.")
