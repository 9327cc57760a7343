from __future__ import annotations

import pytest

from hfconvert.hub.waits import asked_wait, backoff


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "²"}, None),
        ({"ratelimit": '"api";r=0;t=55'}, 55),
        ({"ratelimit": '"api";r=3;t=55', "retry-after": "2"}, 2),
        ({"ratelimit": '"api"; r = 0; t = 5', "retry-after": "2"}, 5),
    ],
)
def test_the_hub_says_how_long(headers: dict[str, str], seconds: float | None) -> None:
    assert asked_wait(headers) == seconds


def test_waits_grow_to_a_bound_unless_one_was_asked_for() -> None:
    plain = [backoff(attempt, None) for attempt in range(7)]
    for wait, least in zip(plain, (1, 2, 4, 8, 16, 16, 16), strict=True):
        assert least <= wait <= least + 1
    assert 55 <= backoff(0, 55) <= 56
    assert len({backoff(0, None) for _ in range(20)}) > 1
