from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from hfconvert.tensors.recent import Recent


def making(name: str, made: list[str]) -> Callable[[], str]:
    """A function that makes the value of a name, and remembers that it did."""

    def make() -> str:
        made.append(name)
        return name.upper()

    return make


def test_a_value_is_made_once_while_it_is_in_use() -> None:
    made: list[str] = []
    recent: Recent[str] = Recent()
    assert [recent.get(name, making(name, made)) for name in "aabab"] == list("AABAB")
    assert made == ["a", "b"]


def test_the_one_that_was_not_used_longest_makes_room() -> None:
    made: list[str] = []
    recent: Recent[str] = Recent(2)
    for name in "abacab":
        recent.get(name, making(name, made))
    assert made == ["a", "b", "c", "b"]


def test_several_threads_make_it_once() -> None:
    made: list[str] = []
    recent: Recent[str] = Recent()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: recent.get("x", making("x", made)), range(50)))
    assert found == ["X"] * 50
    assert made == ["x"]
