"""Measures of two outputs, without torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.checks.logits.measure import (
    by_position,
    differ,
    effect_error,
    mean_loss,
    relative,
)


def output(seed: int, positions: int = 5, width: int = 7) -> Any:
    return np.random.default_rng(seed).normal(size=(positions, width)).astype(np.float32)


seeds = st.integers(0, 1000)


@given(seeds)
def test_an_output_does_not_differ_from_itself(seed: int) -> None:
    found = differ(output(seed), output(seed))
    assert min(found.cosines) == pytest.approx(1)
    assert (found.residual, found.largest, found.kl, found.top1) == (0, 0, 0, 1)


@given(seeds, st.floats(0.1, 10))
def test_cosine_is_blind_to_scale_and_the_residual_is_not(seed: int, scale: float) -> None:
    one = output(seed)
    found = differ(one, (one * np.float32(scale)))
    assert min(found.cosines) == pytest.approx(1, abs=1e-6)
    assert found.residual == pytest.approx(abs(np.float32(scale) - 1), rel=1e-4, abs=1e-6)


@given(seeds, seeds)
def test_measures_are_those_of_their_formulas(one: int, other: int) -> None:
    ours, theirs = output(one), output(other)
    found = differ(ours, theirs)
    for place in range(len(ours)):
        expected = (
            ours[place]
            @ theirs[place]
            / np.linalg.norm(ours[place])
            / np.linalg.norm(theirs[place])
        )
        assert found.cosines[place] == pytest.approx(float(expected), abs=1e-5)
    assert found.largest == pytest.approx(float(np.abs(ours - theirs).max()), rel=1e-5)
    assert found.kl >= 0


def test_kl_is_that_of_two_coins() -> None:
    fair, bent = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    found = differ(fair.astype(np.float32), bent.astype(np.float32))
    assert found.kl == pytest.approx(expected, rel=1e-5)


def test_the_worst_position_is_named() -> None:
    ours = output(1)
    theirs = ours.copy()
    theirs[3] *= -1
    figures = differ(ours, theirs).as_json()
    assert figures["position"] == 3
    assert figures["cosine_min"] == pytest.approx(-1)
    assert figures["cosine_mean"] == pytest.approx((4 - 1) / 5)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_as_wrong_as_can_be(value: float) -> None:
    theirs = output(1)
    theirs[0, 0] = value
    found = differ(output(1), theirs)
    assert set(found.cosines) == {-1.0}
    assert found.residual == math.inf


def test_zero_is_like_zero_and_unlike_anything_else() -> None:
    zero, one = np.zeros((1, 3), np.float32), np.ones((1, 3), np.float32)
    assert differ(zero, zero).cosines == (1.0,)
    assert differ(zero, one).cosines == (0.0,)
    assert differ(zero, one).residual == math.inf


def test_the_least_cosine_at_each_position_over_inputs_of_any_length() -> None:
    long, short = output(1, 4), output(2, 2)
    bent = short.copy()
    bent[1] *= -1
    found = by_position([differ(long, long), differ(short, bent)])
    assert found == pytest.approx([1, -1, 1, 1])


def test_the_loss_of_a_model_that_knows_the_next_token() -> None:
    ids = [2, 0, 1]
    logits = np.full((3, 4), -50, np.float32)
    logits[0, 0] = logits[1, 1] = 50
    assert mean_loss([logits], [ids]) == pytest.approx(0, abs=1e-6)
    assert mean_loss([np.zeros((3, 4), np.float32)], [ids]) == pytest.approx(math.log(4))
    assert math.isnan(mean_loss([np.zeros((1, 4), np.float32)], [[1]]))


@given(st.floats(0, 2))
def test_the_effect_error_of_a_scaled_update_is_what_it_lacks(scale: float) -> None:
    base, update = output(1), output(2)
    reference, merged = base + update, base + np.float32(scale) * update
    error, effect = effect_error([base], [reference], [merged])
    assert error == pytest.approx(abs(1 - scale), abs=1e-4)
    assert effect == pytest.approx(float(np.linalg.norm(update) / np.linalg.norm(base)), rel=1e-3)


def test_relative_differences_by_layer() -> None:
    one = output(1)
    assert relative([one, one], [one, one * 2]) == pytest.approx([0, 1])
