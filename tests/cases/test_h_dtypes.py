"""Section H: dtypes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]

# Every dtype that safetensors 0.8 knows, with its bits.
CODES = {
    **dict.fromkeys(["BOOL", "U8", "I8"], 8),
    **dict.fromkeys(["F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0"], 8),
    **dict.fromkeys(["U16", "I16", "F16", "BF16"], 16),
    **dict.fromkeys(["U32", "I32", "F32"], 32),
    **dict.fromkeys(["U64", "I64", "F64", "C64"], 64),
    "F4": 4,
    **dict.fromkeys(["F6_E2M3", "F6_E3M2"], 6),
}
CAST = {"F16", "BF16", "F32", "F64", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}


def every_dtype() -> tuple[bytes, dict[str, bytes]]:
    """A file with a tensor of shape [2, 8] of every dtype, and the bytes of each. Floats are small."""
    header: dict[str, Any] = {}
    data: dict[str, bytes] = {}
    position = 0
    for code, bits in CODES.items():
        content = bytes(index % 2 if bits <= 8 else 0 for index in range(16 * bits // 8))
        stop = position + len(content)
        header[code] = {"dtype": code, "shape": [2, 8], "data_offsets": [position, stop]}
        data[code], position = content, stop
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(data.values()), data


def raw(done: Any, file: str = "model.safetensors") -> dict[str, tuple[str, list[int], bytes]]:
    """dtype, shape and bytes of every tensor of a file, read by nobody's library."""
    content, header = done.files[file], done.header(file)
    start = 8 + int.from_bytes(content[:8], "little")
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (start + offset for offset in entry["data_offsets"])
            found[name] = (entry["dtype"], entry["shape"], content[begin:end])
    return found


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_71_the_dtype_of_the_source_is_kept(
    tiny: State, store: Store, convert: Convert, dtype: torch.dtype
) -> None:
    state = {name: tensor.to(dtype) for name, tensor in tiny.items()}
    done = convert(store({"pytorch_model.bin": state}))
    assert done.holds(state)
    assert done.document["totals"]["result"] == done.document["totals"]["source"]


def test_71_per_tensor(store: Store, convert: Convert) -> None:
    state = {"a": torch.ones(3).half(), "b": torch.ones(3), "c": torch.ones(3).bfloat16()}
    assert convert(store({"pytorch_model.bin": state})).holds(state)


@pytest.mark.parametrize("field", ["dtype", "torch_dtype"])
@pytest.mark.parametrize(("said", "written"), [("float16", "bfloat16"), ("bfloat16", "bfloat16")])
def test_74_the_configuration_says_what_is_stored(
    tiny: State,
    config: dict[str, Any],
    store: Store,
    convert: Convert,
    field: str,
    said: str,
    written: str,
) -> None:
    state = {name: tensor.bfloat16() for name, tensor in tiny.items()}
    tokens = b'{\n "eos_token": "</s>",\n "additional": ["<a>"]\n}\n'
    source = store({"pytorch_model.bin": state}, config={**config, field: said, "z": 1})
    (source / "special_tokens_map.json").write_bytes(tokens)
    before = (source / "config.json").read_text()
    done = convert(source)
    assert done.holds(state)
    assert done.files["special_tokens_map.json"] == tokens
    after = done.files["config.json"].decode()
    assert after == before.replace(json.dumps(said), json.dumps(written))
    assert ("the tensors are bfloat16" in done.findings("warning")) == (said != written)
    assert done.check("files")["measured"]["changed"] == int(said != written)


def test_74_a_cast_is_followed(
    tiny: State, config: dict[str, Any], store: Store, convert: Convert
) -> None:
    source = store({"pytorch_model.bin": tiny}, config={**config, "torch_dtype": "float32"})
    done = convert(source, dtype={"default": "bfloat16", "rules": {"*norm*": "float32"}})
    expected = {name: t if "norm" in name else t.bfloat16() for name, t in tiny.items()}
    assert done.holds(expected)
    assert done.json("config.json") == {**config, "torch_dtype": "bfloat16"}
    assert "`torch_dtype` follows the tensors: float32 -> bfloat16" in done.findings("info")
    assert done.check("dtypes")["measured"]["result"] == {
        "body": {"BF16": 14},
        "embedding": {"BF16": 2},
        "norm": {"F32": 5},
    }
    assert (source / "config.json").read_text() == json.dumps({**config, "torch_dtype": "float32"})


def test_74_transformers_reads_the_dtype_that_is_written(
    tiny: State, config: dict[str, Any], store: Store, convert: Convert
) -> None:
    from transformers import AutoModelForCausalLM

    source = store({"pytorch_model.bin": tiny}, config={**config, "torch_dtype": "float32"})
    done = convert(source, dtype="bfloat16")
    model = AutoModelForCausalLM.from_pretrained(done.output)
    assert model.dtype == torch.bfloat16
    assert all(torch.equal(model.state_dict()[name], t.bfloat16()) for name, t in tiny.items())


def test_76_no_buffers_are_invented(store: Store, convert: Convert) -> None:
    state = {"h.0.attn.c_attn.weight": torch.randn(4, 12), "h.0.ln_1.weight": torch.ones(4)}
    config = {"model_type": "gpt2", "n_positions": 8}
    done = convert(store({"pytorch_model.bin": state}, config=config))
    assert done.holds(state)


def test_77_only_floats_are_cast(store: Store, convert: Convert) -> None:
    state = {
        "bn.num_batches_tracked": torch.tensor(7),
        "mask": torch.eye(4, dtype=torch.bool),
        "packed": torch.arange(16, dtype=torch.uint8).view(4, 4),
        "position_ids": torch.arange(8)[None],
        "phase": torch.ones(2, dtype=torch.complex64),
        "w": torch.randn(3, 5),
    }
    done = convert(store({"pytorch_model.bin": state}), dtype="float16")
    assert done.holds({**state, "w": state["w"].half()})


def test_79_an_overflow_stops_and_names_the_tensor(store: Store, convert: Convert) -> None:
    state = {"big": torch.tensor([1e6, 1e-8, 70000.0]).bfloat16(), "w": torch.ones(2)}
    done = convert(store({"pytorch_model.bin": state}), dtype="float16")
    assert done.code == 1
    assert "big: 2 of 3 values overflow F16" in done.findings("error")
    (error,) = (one for one in done.document["findings"] if one["level"] == "error")
    assert "bfloat16" in error["hint"]
    assert "rules" in error["hint"]
    assert done.check("dtypes")["measured"]["overflow"] == 2


def test_79_all_the_tensors_at_once(store: Store, convert: Convert) -> None:
    state = {f"l.{number}.w": torch.full((9,), 1e5) for number in range(30)}
    done = convert(store({"pytorch_model.bin": state}), dtype="float16")
    assert "l.{0..29}.w" in done.findings("error")


def test_79_underflow_is_a_warning_with_its_share(store: Store, convert: Convert) -> None:
    state = {"w": torch.tensor([1e-9, 1.0, 2.0, 3.0])}
    done = convert(store({"pytorch_model.bin": state}), dtype="float16")
    assert done.holds({"w": state["w"].half()})
    assert "1 of 4 values (25.00%) are too small" in done.findings("warning")


def test_79_infinity_and_nan_of_the_source_are_no_overflow(store: Store, convert: Convert) -> None:
    state = {"w": torch.tensor([float("inf"), float("-inf"), float("nan"), 1.0])}
    done = convert(store({"pytorch_model.bin": state}), dtype="float16")
    assert done.code == 0
    written = done.tensors()["w"]
    assert written[:2].tolist() == [float("inf"), float("-inf")]
    assert written[2].isnan()


def test_79_a_rule_keeps_what_would_overflow(store: Store, convert: Convert) -> None:
    state = {"big": torch.full((4,), 1e6), "w": torch.ones(2)}
    source = store({"pytorch_model.bin": state})
    done = convert(source, dtype={"default": "float16", "rules": {"big": "bfloat16"}})
    assert done.holds({"big": state["big"].bfloat16(), "w": state["w"].half()})


def test_80_every_dtype_goes_through_untouched(store: Store, convert: Convert) -> None:
    content, data = every_dtype()
    done = convert(store({"model.safetensors": content}))
    assert done.code == 0
    assert raw(done) == {code: (code, [2, 8], data[code]) for code in CODES}
    assert all(check["status"] != "fail" for check in done.document["checks"])


def test_80_and_beside_a_cast_of_others(store: Store, convert: Convert) -> None:
    content, data = every_dtype()
    done = convert(store({"model.safetensors": content}), dtype="bfloat16")
    assert done.code == 0
    written = raw(done)
    for code in CODES:
        assert written[code][0] == ("BF16" if code in CAST else code)
        if code not in CAST - {"BF16"}:
            assert written[code] == (code, [2, 8], data[code])


def test_80_what_safetensors_cannot_hold_is_named(store: Store, convert: Convert) -> None:
    state = {"x": torch.ones(2, dtype=torch.complex128), "w": torch.ones(2)}
    source = store({"pytorch_model.bin": state})
    done = convert(source)
    assert done.code == 3
    assert "x" in done.findings("error")
    assert "complex128" in done.findings("error")
    dropped = convert(source, key_map=[{"drop": ["x"]}], output="dropped")
    assert dropped.holds({"w": state["w"]})


def test_82_f4_keeps_the_shape_of_its_header(store: Store, convert: Convert) -> None:
    packed = torch.arange(8, dtype=torch.uint8).view(2, 4).view(torch.float4_e2m1fn_x2)
    source = store({"model.safetensors": {"w": packed}})
    done = convert(source)
    assert raw(done)["w"] == ("F4", [2, 8], bytes(range(8)))
    done = convert(store({"pytorch_model.bin": {"w": packed}}, folder="pickled"), output="two")
    assert raw(done)["w"] == ("F4", [2, 8], bytes(range(8)))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu])
def test_83_eight_bit_floats(store: Store, convert: Convert, dtype: torch.dtype) -> None:
    bits = torch.arange(16, dtype=torch.uint8).view(4, 4) * 16 + 1
    done = convert(store({"pytorch_model.bin": {"w": bits.view(dtype)}}))
    code = {"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0"}
    name = str(dtype).removeprefix("torch.")
    assert raw(done)["w"] == (code[name], [4, 4], bits.numpy().tobytes())


def test_85_no_size_limit_of_our_own(tmp_path: Path, convert: Convert) -> None:
    """A sparse file of 6 GB: it is planned, to the byte, without being read."""
    source = tmp_path / "source"
    source.mkdir()
    size = 6_000_000_000
    entry = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    text = json.dumps({"w": entry}).encode()
    with (source / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + size)
    done = convert(source, command="plan", options=["--set", "validate.tensors=off"])
    assert done.code == 0
    (output,) = (one for one in done.document["outputs"] if one["tensors"])
    assert output["size"] > size
    assert done.document["peak_memory_bytes"] < 100e6
    assert "above max_shard_size" in done.findings("warning")


def test_86_quantised_layouts_stay_what_they_are(store: Store, convert: Convert) -> None:
    state = {
        "down_proj.weight": torch.arange(256, dtype=torch.uint8)[:, None],
        "down_proj.weight.absmax": torch.rand(4),
        "down_proj.weight.quant_map": torch.rand(16),
        "down_proj.weight.quant_state.bitsandbytes__nf4": torch.arange(9, dtype=torch.uint8),
        "norm.weight": torch.rand(4),
    }
    done = convert(store({"model.safetensors": state}), dtype="bfloat16")
    assert done.holds({**state, "norm.weight": state["norm.weight"].bfloat16()})
    assert "quantised weights and their scales are not cast" in done.findings("info")
