from __future__ import annotations

from hfconvert.checks.logits.check import Outcomes
from hfconvert.checks.result import Check
from hfconvert.proving.logits import _all_values_held, _moved_by_rounding

FAILED = Check("logits", "fail", {"cosine_min": 0.99}, {"cosine_min": 0.999}, "worst is input 4")


def test_logits_that_move_by_rounding_alone_are_said_and_fail_nothing() -> None:
    outcomes = _moved_by_rounding(Outcomes((FAILED,)))
    (check,) = outcomes.checks
    assert (check.status, check.measured) == ("pass", {"cosine_min": 0.99})
    assert check.detail == "by rounding alone: worst is input 4"
    (finding,) = outcomes.findings
    assert (finding.level, finding.check) == ("warning", "logits")
    assert "worst is input 4" in finding.message


def test_other_outcomes_stay_as_they_are() -> None:
    effect = Check("effect", "fail", {}, {}, "half of the update is missing")
    outcomes = Outcomes((Check("logits", "pass"), effect))
    assert _moved_by_rounding(outcomes) is outcomes


def test_only_a_comparison_of_every_value_proves_a_cast() -> None:
    assert _all_values_held({"tensors": Check("tensors", "pass", {"values": 4})})
    assert not _all_values_held({"tensors": Check("tensors", "pass", {"share": 0.5})})
    assert not _all_values_held({"tensors": Check("tensors", "fail")})
    assert not _all_values_held({"tensors": Check("tensors", "skipped")})
    assert not _all_values_held({})
