from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.readers.json_text import replace_values

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def test_everything_else_stays_as_it_is() -> None:
    text = '{\n\t"b" : 1.50e3,\n  "torch_dtype":"float32"  ,"é": "\\u00e9 \\/ }", "a": [ ]\n}\n\n'
    edited = replace_values(text.encode(), {("torch_dtype",): "bfloat16"}).decode()
    assert edited == text.replace('"float32"', '"bfloat16"')


def test_a_value_inside_another_object() -> None:
    text = '{"dtype": "x", "text_config": {"rope": {"dtype": 1}, "dtype": "float32"}, "z": {"dtype": 2}}'
    edited = replace_values(text.encode(), {("text_config", "dtype"): "bfloat16"}).decode()
    assert edited == text.replace('"float32"', '"bfloat16"')


def test_several_values_of_other_lengths_at_once() -> None:
    text = '{"a": "long value", "b": {"c": 1, "d": [1, 2]}, "e": 0}'
    changes: dict[tuple[str, ...], Any] = {("a",): 1, ("b", "d"): None, ("e",): {"f": "g"}}
    edited = replace_values(text.encode(), changes).decode()
    assert edited == '{"a": 1, "b": {"c": 1, "d": null}, "e": {"f": "g"}}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{"tied": false}'),
        ('{"a": 1}', '{"a": 1,"tied": false}'),
        ('{\n  "a": 1,\n  "b": {}\n}\n', '{\n  "a": 1,\n  "b": {},\n  "tied": false\n}\n'),
        ('{ "a": 1, "b": 2 }', '{ "a": 1, "b": 2, "tied": false }'),
    ],
)
def test_a_key_that_is_not_there_is_added_in_the_same_hand(text: str, expected: str) -> None:
    assert replace_values(text.encode(), {("tied",): False}).decode() == expected


def test_of_a_key_that_stands_twice_both_change() -> None:
    assert replace_values(b'{"a": 1, "a": 2}', {("a",): 3}) == b'{"a": 3, "a": 3}'


def test_escaped_keys_are_the_same_keys() -> None:
    assert replace_values(b'{"\\u0061": 1}', {("a",): 2}) == b'{"\\u0061": 2}'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16", "utf-32-be"])
def test_the_encoding_stays(encoding: str) -> None:
    text = '{"name": "żółć", "dtype": "float32"}'
    edited = replace_values(text.encode(encoding), {("dtype",): "float16"})
    assert edited == text.replace("float32", "float16").encode(encoding)


def test_a_path_that_leads_nowhere_is_an_error() -> None:
    for path in (("a", "b"), ("c", "b")):
        with pytest.raises(ValueError, match="no object at"):
            replace_values(b'{"a": 1}', {path: 2})


@given(
    st.dictionaries(st.text(), VALUES, min_size=1),
    st.data(),
    st.sampled_from([None, 1, "\t"]),
    st.booleans(),
)
def test_the_result_means_what_a_parser_would_make_of_it(
    document: dict[str, Any], data: st.DataObject, indent: int | str | None, ascii_only: bool
) -> None:
    path = [data.draw(st.sampled_from(list(document)))]
    inner = document[path[0]]
    if isinstance(inner, dict):
        path.append(data.draw(st.text()))
    value = data.draw(VALUES)
    expected = copy.deepcopy(document)
    target = expected[path[0]] if len(path) == 2 else expected
    target[path[-1]] = value
    content = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    edited = replace_values(content.encode("utf-8", "surrogatepass"), {tuple(path): value})
    assert json.loads(edited) == expected
    assert list(json.loads(edited)) == list(expected)
