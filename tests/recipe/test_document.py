from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.recipe.document import MOST_CHARACTERS, MOST_DEPTH, UNREAD, compose


def faults(text: str) -> list[tuple[str, str]]:
    return [(str(fault.mark), fault.what) for fault in compose(text, "r.yaml").faults]


def test_values_and_places() -> None:
    document = compose('a: 1\nb:\n  - off\n  - {c: "2"}\n', "r.yaml")
    assert document.value == {"a": 1, "b": ("off", {"c": "2"})}
    assert document.faults == ()
    assert str(document.positions.key(("b", 1, "c"))) == "r.yaml:4:6"
    assert str(document.positions.value(("b", 1, "c"))) == "r.yaml:4:9"
    assert str(document.positions.key(("b", 0))) == "r.yaml:3:5"


@pytest.mark.parametrize("quoted", ['"1"', "'1'", "|-\n  1", ">-\n  1"])
def test_whatever_is_quoted_is_text(quoted: str) -> None:
    assert compose(f"a: {quoted}\n", "r.yaml").value == {"a": "1"}


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "\ufeff", "a:\n"])
def test_nothing_is_null(text: str) -> None:
    document = compose(text, "r.yaml")
    assert document.value in (None, {"a": None})
    assert document.faults == ()


def test_digits_as_a_key_are_text() -> None:
    assert compose("{0: a, 1.50: b}", "r.yaml").value == {"0": "a", "1.50": "b"}


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("a: 1\nb: 2\na: 3\n", "r.yaml:3:1", "`a` stands here a second time"),
        ("{a: {b: 1, b: 2}}", "r.yaml:1:12", "`b` stands here a second time"),
        ('a: 1\n"a": 2\n', "r.yaml:2:1", "`a` stands here a second time"),
        ("a: *norm\n", "r.yaml:1:4", "aliases are refused: `*norm`"),
        ("a: &x 1\n", "r.yaml:1:4", "anchors are refused: `&x`"),
        ("&x a: 1\n", "r.yaml:1:1", "anchors are refused: `&x`"),
        ("a: &x [1]\n", "r.yaml:1:4", "anchors are refused: `&x`"),
        ("a: !!str 1\n", "r.yaml:1:4", "tags are refused: `tag:yaml.org,2002:str`"),
        ("a: !!python/object:os.system {}\n", "r.yaml:1:4", "tags are refused"),
        ("a: ! 1\n", "r.yaml:1:4", "tags are refused: `!`"),
        ("<<: {a: 1}\n", "r.yaml:1:1", "merge keys (`<<`) are refused"),
        ("null: 1\n", "r.yaml:1:1", "`null` is not text"),
        ("true: 1\n", "r.yaml:1:1", "`true` is not text"),
        ("?\n: 1\n", "r.yaml:1:2", "the key is missing"),
        ("? [a, b]\n: 1\n", "r.yaml:1:3", "a list or mapping stands as a key"),
        ("{a: 1}: 1\n", "r.yaml:1:1", "a list or mapping stands as a key"),
        ("*a : 1\n", "r.yaml:1:1", "an alias stands as a key"),
        ("a: 1\n--- \nb: 2\n", "r.yaml:2:1", "a second document begins here"),
        ("a: [\n", "r.yaml:2:1", "not YAML: expected the node content, but found '<stream end>'"),
        ("a:\n\tb: 1\n", "r.yaml:2:1", "not YAML: found character '\\t'"),
        ("a: [*.bias]\n", "r.yaml:1:6", "not YAML: expected alphabetic or numeric character"),
        ("a: {b: ${c.d}}\n", "r.yaml:1:9", "not YAML: expected ',' or '}', but got '{'"),
        ("a: 1\n b: 2\n", "r.yaml:2:3", "not YAML: mapping values are not allowed here"),
        ("ab\n: \x07", "r.yaml:2:3", "the character U+0007 is not allowed in YAML"),
        ('a: "\\UFFFFFFFF"\n', "r.yaml:1:7", "an escape or a number is out of range"),
        ('a: "\\ud800"\n', "r.yaml:1:4", "half of a surrogate pair is no character"),
        (f"%YAML {'1' * 5000}.1\n---\na\n", "r.yaml:1:7", "an escape or a number is out of range"),
    ],
)
def test_refused(text: str, where: str, what: str) -> None:
    found = faults(text)
    assert found
    assert found[0][0] == where
    assert found[0][1].startswith(what)
    assert compose(text, "r.yaml").faults[0].do


@pytest.mark.parametrize(
    "text",
    ["a:\n  b: 1\n c: 2\n", "a: 1\n b: 2\n", "a:\n  - x\n - y\n", "a:\n  - x\n   - y: 1\n"],
)
def test_a_wrong_indent_is_called_one(text: str) -> None:
    fault = compose(text, "r.yaml").faults[0]
    assert "indented otherwise" in fault.why
    assert "in one column" in fault.do


def test_reading_goes_on_after_what_is_refused() -> None:
    document = compose(
        "a: *x\nb: &y 2\nc: 3\nc: {d: 1, d: 2}\n<<: {z: 1}\n? [k]\n: 1\ne: 5\n", "r.yaml"
    )
    assert document.value == {"a": UNREAD, "b": 2, "c": 3, "e": 5}
    assert document.unread == {("a",)}
    assert [str(fault.mark) for fault in document.faults] == [
        "r.yaml:1:4",
        "r.yaml:2:4",
        "r.yaml:4:1",
        "r.yaml:4:11",
        "r.yaml:5:1",
        "r.yaml:6:3",
    ]


def test_the_place_of_the_first_duplicate_is_named() -> None:
    (fault,) = compose("a: 1\na: 2\n", "r.yaml").faults
    assert fault.why == "it was given at r.yaml:1:1 already"


def test_the_value_of_a_refused_key_leaves_no_trace() -> None:
    document = compose("a: {b: 1}\na: {b: 2, c: *x}\n", "r.yaml")
    assert document.value == {"a": {"b": 1}}
    assert set(document.positions.values) == {(), ("a",), ("a", "b")}
    assert document.unread == frozenset()


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_nesting_is_bounded(opening: str) -> None:
    assert "nested more than 32 deep" in [what for _, what in faults(opening * 10_000)]


def test_the_deepest_nesting_that_is_allowed() -> None:
    text = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert faults(text) == []
    assert faults(f"[{text}]") == [("r.yaml:1:33", "nested more than 32 deep")]


def test_size_is_bounded() -> None:
    assert faults("#" * MOST_CHARACTERS) == []
    (fault,) = faults("#" * (MOST_CHARACTERS + 1))
    assert fault == ("r.yaml:1:1", "the file has more than 1048576 characters")


def test_the_number_of_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hfconvert.recipe.document.MOST_EVENTS", 20)
    assert faults("[" + "1," * 10 + "]") == []
    assert [what for _, what in faults("[" + "1," * 30 + "]")] == ["more than 10 values"]


PLAIN = st.recursive(
    st.text(st.characters(codec="utf-8", exclude_categories=["C"])) | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="ascii", exclude_categories=["C"])), inner)
    ),
    max_leaves=10,
)


def as_plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [as_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: as_plain(item) for key, item in value.items()}
    return value


@given(PLAIN)
def test_reads_back_what_yaml_writes(value: Any) -> None:
    text = yaml.safe_dump(value, default_style='"') if isinstance(value, str) else dumped(value)
    document = compose(text, "r.yaml")
    assert document.faults == ()
    assert as_plain(document.value) == value


def dumped(value: Any) -> str:
    """YAML with every text quoted, since plain words mean other things in YAML 1.1."""

    class Quoting(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    Quoting.add_representer(
        str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
    )
    return yaml.dump(value, Dumper=Quoting)
