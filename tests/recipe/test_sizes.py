from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.recipe.faults import RefusedError
from hfconvert.recipe.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("5GB", 5_000_000_000),
        ("5 GB", 5_000_000_000),
        ("1.5gb", 1_500_000_000),
        ("500MB", 500_000_000),
        ("10KB", 10_000),
        ("2TB", 2_000_000_000_000),
        ("12B", 12),
        ("1KiB", 1024),
        ("1MiB", 1 << 20),
        ("0.5GiB", 1 << 29),
        ("1TiB", 1 << 40),
        ("0.1GB", 100_000_000),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "5", "5G", "GB", "-5GB", "5GBs", "5e9B", "1,5GB", "5iB", "0GB", "0.1B", "\u0665GB"]
)
def test_no_sizes(text: str) -> None:
    with pytest.raises(RefusedError):
        parse_size(text)


@given(st.integers(1, 10**12 - 1), st.sampled_from(["B", "KB", "MB", "GB", "KiB", "GiB"]))
def test_whole_numbers_are_exact(number: int, unit: str) -> None:
    assert parse_size(f"{number}{unit}") == number * parse_size(f"1{unit}")
