"""Metadata of model cards, changed by lines: the rest stays byte for byte, YAML reads what was put."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.hub.front_matter import join_card, put_key, split_card, without_key

HEAD = """license: mit   # mine
base_model:
- a/b
- c/d
tags:
  - x

model-index:
- name: x
  results:
    - task: {type: y}

language: en
"""


@pytest.mark.parametrize(
    "text",
    ["", "# Title\n", "---\na: 1\n---\n# Title\n", "---\n---\nx", "--- no\n---\n", "---\na: 1\n"],
)
def test_a_card_is_its_parts(text: str) -> None:
    head, body = split_card(text)
    assert join_card(head, body) in (text, text.removeprefix("---\n---\n"))


def test_what_is_no_metadata_is_text() -> None:
    assert split_card("# Title\n---\na: 1\n---\n") == ("", "# Title\n---\na: 1\n---\n")
    assert split_card("---\na: 1\n---\nText\n---\n") == ("a: 1\n", "Text\n---\n")


@pytest.mark.parametrize("key", ["license", "base_model", "tags", "model-index", "language"])
def test_a_key_goes_with_all_that_belongs_to_it(key: str) -> None:
    rest = without_key(HEAD, key)
    expected = {name: value for name, value in yaml.safe_load(HEAD).items() if name != key}
    assert yaml.safe_load(rest) == expected
    assert all(line in HEAD.splitlines() for line in rest.splitlines())


def test_a_key_that_is_not_there_changes_nothing() -> None:
    assert without_key(HEAD, "base") == HEAD
    assert put_key(HEAD, "base_model", "x/y") == HEAD


@given(st.text(st.characters(codec="ascii"), min_size=1, max_size=20))
def test_yaml_reads_what_was_put(value: str) -> None:
    assert yaml.safe_load(put_key("a: 1", "key", value)) == {"a": 1, "key": value}
    assert yaml.safe_load(put_key("", "key", [value, "owner/m"])) == {"key": [value, "owner/m"]}
