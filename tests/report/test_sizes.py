from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.report.sizes import counted, human, signed


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (12_345, "12.3 kB"),
        (123_456, "123 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (4_400_000_000, "4.40 GB"),
        (1_234_567_890_123, "1.23 TB"),
        (1_234_567_890_123_456, "1235 TB"),
    ],
)
def test_sizes_as_the_hub_shows_them(nbytes: int, text: str) -> None:
    assert human(nbytes) == text


@given(st.integers(0, 10**15))
def test_the_number_shown_is_the_size_within_a_hundredth(nbytes: int) -> None:
    number, unit = human(nbytes).split()
    scale = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}[unit]
    assert abs(float(number) * scale - nbytes) <= nbytes / 100
    assert float(number) < 1000 or unit == "TB"


@pytest.mark.parametrize(("nbytes", "text"), [(-12, "-12 B"), (0, "+0 B"), (4400, "+4.40 kB")])
def test_differences_have_a_sign(nbytes: int, text: str) -> None:
    assert signed(nbytes) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 tensors"), (1, "1 tensor"), (21, "21 tensors")])
def test_numbers_agree_with_their_nouns(count: int, text: str) -> None:
    assert counted(count, "tensor") == text
