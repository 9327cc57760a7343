"""Casts that are wrong in one way: the checks share no code with them, so one of them has to fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from hfconvert.cli import app
from hfconvert.dtypes.convert import convert
from hfconvert.tensors.dtype import BY_CODE, DType
from hfconvert.tensors.header import write_header
from hfconvert.tensors.lazy import RawArray
from hfconvert.tensors.tally import Loss

Cast = Callable[[RawArray, DType, DType], tuple[RawArray, Loss]]
F32, BF16, F16 = BY_CODE["F32"], BY_CODE["BF16"], BY_CODE["F16"]


def truncated(raw: RawArray, source: DType, target: DType) -> tuple[RawArray, Loss]:
    return (raw >> np.uint32(16)).astype(np.uint16), Loss(0, 0, raw.size)


def rounded_twice(raw: RawArray, source: DType, target: DType) -> tuple[RawArray, Loss]:
    """First to ten bits of mantissa, as a detour over F16 would; wrong only near ties."""
    odd = (raw >> np.uint32(13)) & np.uint32(1)
    first = (raw + np.uint32(0xFFF) + odd) & ~np.uint32(0x1FFF)
    return convert(first, source, target)


def half_up(raw: RawArray, source: DType, target: DType) -> tuple[RawArray, Loss]:
    """Ties away from zero; wrong for every other tie."""
    return ((raw + np.uint32(0x8000)) >> np.uint32(16)).astype(np.uint16), Loss(0, 0, raw.size)


def other_half(raw: RawArray, source: DType, target: DType) -> tuple[RawArray, Loss]:
    return convert(raw, source, F16)


def saturated(raw: RawArray, source: DType, target: DType) -> tuple[RawArray, Loss]:
    result, _ = convert(raw, source, target)
    infinite = (result & np.uint16(0x7FFF)) == 0x7F80
    return np.where(infinite, result - np.uint16(1), result), Loss(0, 0, raw.size)


def flushed(raw: RawArray, source: DType, target: DType) -> tuple[RawArray, Loss]:
    """Subnormal results become zero, as on processors that are set so."""
    result, loss = convert(raw, source, target)
    return np.where((result & np.uint16(0x7F80)) == 0, result & np.uint16(0x8000), result), loss


def unsigned_zeros(raw: RawArray, source: DType, target: DType) -> tuple[RawArray, Loss]:
    result, loss = convert(raw, source, target)
    return np.where(result == 0x8000, np.uint16(0), result), loss


def numbers_for_nan(raw: RawArray, source: DType, target: DType) -> tuple[RawArray, Loss]:
    result, loss = convert(raw, source, target)
    nan = (result & np.uint16(0x7FFF)) > 0x7F80
    return np.where(nan, np.uint16(0), result), loss


def one_off(raw: RawArray, source: DType, target: DType) -> tuple[RawArray, Loss]:
    result, loss = convert(raw, source, target)
    result[-1] ^= 1
    return result, loss


WRONG: list[Cast] = [
    *(truncated, rounded_twice, half_up, other_half, saturated, flushed),
    *(unsigned_zeros, numbers_for_nan, one_off),
]


def _into(wrong: Cast) -> Callable[..., Loss]:
    """In the form that the node calls."""

    def convert_into(out: RawArray, raw: RawArray, source: DType, target: DType) -> Loss:
        out[...], loss = wrong(raw, source, target)
        return loss

    return convert_into


def values() -> torch.Tensor:
    """Ties, near ties, both zeros, NaN, infinity, subnormals, and numbers of every size."""
    generator = torch.Generator().manual_seed(11)
    ties = ((torch.arange(512) << 16) + 0x3F808000).to(torch.int32)
    near = torch.cat([ties + 1, ties - 1, ties + 0x800])
    bits = torch.cat([ties, near]).view(torch.float32)
    special = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-40, 3e-39])
    return torch.cat([bits, special, torch.randn(700_000, generator=generator)])


@pytest.fixture
def run(tmp_path: Path) -> Callable[[], tuple[int, dict[str, str], Path]]:
    """Cast those values to bf16 by the command; exit code, status of every check, output."""

    def cast() -> tuple[int, dict[str, str], Path]:
        torch.save({"w": values()}, tmp_path / "w.pt")
        recipe = {"version": 1, "source": {"path": "w.pt"}, "dtype": "bfloat16"}
        (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
        out = tmp_path / "out"
        arguments = ["run", str(tmp_path / "recipe.yaml"), "--output", str(out), "--json", "-q"]
        done = CliRunner().invoke(app, arguments)
        checks = json.loads(done.stdout)["checks"]
        return done.exit_code, {check["name"]: check["status"] for check in checks}, out

    return cast


def test_a_right_cast_passes(run: Callable[[], Any]) -> None:
    code, checks, out = run()
    assert (code, checks["tensors"], checks["dtypes"]) == (0, "pass", "pass")
    assert (out / "w.safetensors").exists()


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_cast_is_found(
    wrong: Cast, run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hfconvert.dtypes.cast.convert_into", _into(wrong))
    code, checks, out = run()
    assert (code, checks["tensors"]) == (1, "fail")
    assert not out.exists()


def test_a_header_that_says_another_dtype_is_found(
    run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(*arguments: Any) -> bytes:
        return write_header(*arguments).replace(b'"dtype":"BF16"', b'"dtype": "F16"')

    monkeypatch.setattr("hfconvert.planning.shards.write_header", written)
    code, checks, out = run()
    assert (code, checks["names"], checks["dtypes"]) == (1, "fail", "fail")
    assert not out.exists()


def test_an_overflow_that_is_not_counted_is_found_as_a_value(
    run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recount of rounding.py makes it infinite, whatever the cast says of it."""

    def silent(raw: RawArray, source: DType, target: DType) -> tuple[RawArray, Loss]:
        result, loss = convert(raw, source, target)
        return np.full_like(result, 0x7F80), loss

    monkeypatch.setattr("hfconvert.dtypes.cast.convert_into", _into(silent))
    assert run()[1]["tensors"] == "fail"
