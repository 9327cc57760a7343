from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.patterns import Pattern, Template
from hfconvert.keymap.tokens import Token, tokens_of


def texts(pattern: str, name: str) -> dict[str, str] | None:
    parsed = Pattern.parse(pattern)
    match = parsed.match(name)
    if match is None:
        return None
    stars = {f"*{number}": match.star(number) for number in range(parsed.stars)}
    return stars | {capture: match[capture] for capture in parsed.captures}


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("a.b", "a.b", {}),
        ("a.b", "a.b.c", None),
        ("a.b", "x.a.b", None),
        ("a.b", "axb", None),
        ("*", "", {"*0": ""}),
        ("*", "a\n.b", {"*0": "a\n.b"}),
        ("{x}", "layer", {"x": "layer"}),
        ("{x}", "a.b", None),
        ("{x}", "", None),
        ("h.{i}.w", "h.12.w", {"i": "12"}),
        ("h.{i}.w", "h..w", None),
        ("h.{i}.w", "h.1.2.w", None),
        ("*.{i}.weight", "model.layers.0.weight", {"*0": "model.layers", "i": "0"}),
        ("*.attn.bias", "h.0.attn.bias", {"*0": "h.0"}),
        ("*.attn.bias", "attn.bias", None),
        ("optimizer.*", "optimizer.", {"*0": ""}),
        ("optimizer.*", "my.optimizer.x", None),
        ("*norm*", "model.norm.weight", {"*0": "model.", "*1": ".weight"}),
        ("*norm*", "norm", {"*0": "", "*1": ""}),
        ("*.a.*.b", "x.a.a.b.b", {"*0": "x", "*1": "a.b"}),
        ("*.a.{i}.b.*", "a.a.1.c.a.2.b.w", {"*0": "a.a.1.c", "i": "2", "*1": "w"}),
        ("fc{n}.w", "fc2.w", {"n": "2"}),
        ("{a}_{b}", "x_y_z", {"a": "x", "b": "y_z"}),
        ("e{a}x{b}x.w", "exxxx.w", {"a": "x", "b": "x"}),
        ("a.{i}.b.{i}.c", "a.3.b.3.c", {"i": "3"}),
        ("a.{i}.b.{i}.c", "a.3.b.4.c", None),
        ("*.{i}.{i}", "q.3.4.4", {"*0": "q.3", "i": "4"}),
        ("w$^(.)[a]\\", "w$^(.)[a]\\", {}),
    ],
)
def test_a_pattern_covers_the_whole_name(
    pattern: str, name: str, expected: dict[str, str] | None
) -> None:
    assert texts(pattern, name) == expected
    assert Pattern.parse(pattern).covers(name) == (expected is not None)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("", "the pattern is empty"),
        ("a.{i", "`{` at character 3"),
        ("a.i}", "`}` at character 4"),
        ("a.{}.b", "`{` at character 3"),
        ("a.{i j}.b", "`{` at character 3"),
        ("a.{{i}}.b", "`{` at character 3"),
        ("a.{1}.b", "`{` at character 3"),
        ("{a}{b}.w", "two wildcards side by side"),
        ("a.**", "two wildcards side by side"),
        ("{a}*", "two wildcards side by side"),
        ("{i}.*.{i}", "repeats `{i}`"),
        ("{i}x{i}.w", "repeats `{i}`"),
        ("{j}x{i}.{i}", "repeats `{i}`"),
    ],
)
def test_what_is_no_pattern_says_why_and_where(pattern: str, says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)) as caught:
        Pattern.parse(pattern, "recipe.yaml:3:5")
    assert caught.value.exit == Exit.RECIPE
    (problem,) = caught.value.problems
    assert problem.subject == "recipe.yaml:3:5"
    assert problem.why
    assert problem.do


@pytest.mark.parametrize(
    ("left", "right", "name", "expected"),
    [
        (
            "bert.layer.{i}.self.query.*",
            "enc.{i}.q.*",
            "bert.layer.3.self.query.bias",
            "enc.3.q.bias",
        ),
        ("*.gamma", "*.weight", "LayerNorm.gamma", "LayerNorm.weight"),
        ("*.a.*", "*.b.*", "x.a.y", "x.b.y"),
        ("*.a.*", "*", "x.a.y", "x"),
        ("{a}.{b}", "{b}.{a}.{b}", "x.y", "y.x.y"),
        ("{a}.{b}", "{b}{a}", "x.y", "yx"),
        ("_orig_mod.*", "*", "_orig_mod.w", "w"),
        ("w", "v", "w", "v"),
        ("%s.{i}", "100%.{i}.%d", "%s.1", "100%.1.%d"),
    ],
)
def test_a_template_repeats_captures_and_stars(
    left: str, right: str, name: str, expected: str
) -> None:
    pattern = Pattern.parse(left)
    match = pattern.match(name)
    assert match is not None
    assert Template.parse(right, pattern).expand(match) == expected


@pytest.mark.parametrize(
    ("left", "right", "says"),
    [
        ("a.{i}", "b.{j}.{k}", "`{j}`, `{k}`, which `a.{i}` does not capture"),
        ("a.*", "*.*", "more stars (2) than `a.*` (1)"),
        ("a", "b.*", "more stars (1) than `a` (0)"),
        ("a.*", "b.{", "`{` at character 3"),
    ],
)
def test_a_template_uses_only_what_the_pattern_has(left: str, right: str, says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)) as caught:
        Template.parse(right, Pattern.parse(left), "recipe.yaml:9:9")
    assert [problem.subject for problem in caught.value.problems] == ["recipe.yaml:9:9"]


def searched(tokens: list[Token], name: str, taken: dict[str, str]) -> bool:
    """Whether the tokens cover the name, by trying everything."""
    if not tokens:
        return not name
    (kind, text), *rest = tokens
    if kind == "literal":
        return name.startswith(text) and searched(rest, name[len(text) :], taken)
    for size in range(len(name) + 1):
        part = name[:size]
        if kind == "capture" and (not part or "." in part or taken.get(text, part) != part):
            continue
        more = {**taken, text: part} if kind == "capture" else taken
        if searched(rest, name[size:], more):
            return True
    return False


ALPHABET = "ab."
PIECES = st.sampled_from(["a", "b", ".", "aa", ".a", "a.", "{x}", "{y}", "*"])


@given(st.lists(PIECES, min_size=1, max_size=8).map("".join), st.text(ALPHABET, max_size=9))
def test_matching_finds_what_an_exhaustive_search_finds(pattern: str, name: str) -> None:
    try:
        parsed = Pattern.parse(pattern)
    except UserError:
        return
    assert parsed.covers(name) == searched(list(tokens_of(pattern)), name, {})


def test_matching_is_exhaustive_on_all_short_names() -> None:
    pieces = ["a", ".", "b", "{x}", "{y}", "*"]
    names = [
        "".join(name) for size in range(6) for name in itertools.product(ALPHABET, repeat=size)
    ]
    checked = 0
    for choice in itertools.product(pieces, repeat=4):
        pattern = "".join(choice)
        try:
            parsed = Pattern.parse(pattern)
        except UserError:
            continue
        tokens = list(tokens_of(pattern))
        wrong = [name for name in names if parsed.covers(name) != searched(tokens, name, {})]
        assert (pattern, wrong) == (pattern, [])
        checked += 1
    assert checked > 500


@given(st.lists(PIECES, min_size=1, max_size=8).map("".join), st.text(ALPHABET, max_size=9))
def test_a_pattern_as_its_own_template_is_the_identity(pattern: str, name: str) -> None:
    try:
        parsed = Pattern.parse(pattern)
    except UserError:
        return
    match = parsed.match(name)
    if match is not None:
        assert Template.parse(pattern, parsed).expand(match) == name


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*a*a*a*a*a*a*a*a*b", "a" * 4000),
        ("{a}a{b}a{c}a{d}a{e}a{f}b", "a" * 4000),
        ("*.{a}a{b}a{c}.*.{d}a{e}.b", "aaa.a" * 800),
        ("*.{i}.{i}.*.{j}.{j}.x", "a." * 2000),
    ],
)
def test_hostile_names_take_no_exponential_time(pattern: str, name: str) -> None:
    """A matcher that tries every way does not come back from this in a lifetime."""
    assert not Pattern.parse(pattern).covers(name)
