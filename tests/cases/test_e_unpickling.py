"""Section E: what training code pickles, opened whole and never executed."""

from __future__ import annotations

import argparse
import collections
import datetime
import importlib
import io
import pickle
import sys
import tarfile
import types
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]


@contextmanager
def module(name: str, **classes: type) -> Iterator[None]:
    """A module that is there while something is pickled, and gone when it is read."""
    made = types.ModuleType(name)
    for attribute, kind in classes.items():
        kind.__module__, kind.__qualname__ = name, attribute
        setattr(made, attribute, kind)
    parts = name.split(".")
    with pytest.MonkeyPatch.context() as patch:
        for count in range(1, len(parts)):
            parent = ".".join(parts[:count])
            patch.setitem(sys.modules, parent, types.ModuleType(parent))
        patch.setitem(sys.modules, name, made)
        yield


def saved(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("core", ["numpy.core", "numpy._core"])
def test_35_numpy_scalars_under_both_names(
    tiny: State, store: Store, convert: Convert, core: str
) -> None:
    data = pickle.dumps({"state_dict": tiny, "x": np.float64(1.5)}, protocol=2)
    assert b"numpy._core.multiarray" in data
    module_name = f"{core}.multiarray".encode()
    content = data.replace(b"numpy._core.multiarray", module_name)
    done = convert(store({"pytorch_model.bin": content}))
    assert done.code == 0, done.said
    assert done.holds(tiny)
    (found,) = done.document["pickle"]
    asked = {f"{one['module']}.{one['name']}": one["verdict"] for one in found["imports"]}
    assert asked[f"{core}.multiarray.scalar"] == "inert"


def test_35_inert_values_of_many_kinds(tiny: State, store: Store, convert: Convert) -> None:
    rest = {
        "args": argparse.Namespace(lr=0.1, out=Path("/x")),
        "history": collections.defaultdict(list, loss=[1.0]),
        "window": collections.deque([1, 2], maxlen=5),
        "tags": frozenset({"a"}),
        "when": datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc),
        "part": slice(1, 9, 2),
        "counts": collections.Counter("aab"),
    }
    done = convert(store({"pytorch_model.bin": {"state_dict": tiny, **rest}}))
    assert done.code == 0, done.said
    assert done.holds(tiny)
    (found,) = done.document["pickle"]
    assert found["dangerous"] == []
    assert {one["verdict"] for one in found["imports"]} == {"inert"}


def test_37_omegaconf_without_omegaconf(tiny: State, store: Store, convert: Convert) -> None:
    class ListConfig:
        def __init__(self, content: list[Any]) -> None:
            self._content = content

    class DictConfig:
        def __init__(self, content: dict[str, Any]) -> None:
            self._content = content

    with (
        module("omegaconf.listconfig", ListConfig=ListConfig),
        module("omegaconf.dictconfig", DictConfig=DictConfig),
    ):
        config = DictConfig({"lr": 0.5, "layers": ListConfig([1, 2])})
        data = saved({"state_dict": tiny, "hyper_parameters": config})
    source = store({"pytorch_model.bin": data})
    done = convert(source)
    assert done.code == 0, done.said
    assert done.holds(tiny)
    assert "omegaconf" not in sys.modules


def test_38_a_whole_module_gives_its_tensors(store: Store, convert: Convert) -> None:
    linear = torch.nn.Linear(2, 2)
    done = convert(store({"pytorch_model.bin": {"model": linear}}))
    assert done.code == 0, done.said
    assert done.holds(dict(linear.state_dict()))
    (found,) = done.document["pickle"]
    assert "torch.nn.modules.linear.Linear" in found["stubbed"]


def test_38_a_module_of_a_class_of_nobody(store: Store, convert: Convert) -> None:
    class Detector(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Linear(3, 2)
            self.register_buffer("mean", torch.ones(2))

    with module("detector.net", Detector=Detector):
        made = Detector()
        data = saved(torch.nn.DataParallel(made))
    done = convert(store({"pytorch_model.bin": data}))
    assert done.code == 0, done.said
    assert done.holds({f"module.{name}": value for name, value in made.state_dict().items()})


def test_40_enums_and_scalers_of_frameworks(tiny: State, store: Store, convert: Convert) -> None:
    import enum

    class Stage(enum.Enum):
        weights = 3

    class LossScaler:
        def __init__(self) -> None:
            self.cur_scale, self.parts = 65536.0, [torch.ones(2)]

    with (
        module("deepspeed.runtime.zero.config", ZeroStageEnum=Stage),
        module("deepspeed.runtime.fp16.loss_scaler", LossScaler=LossScaler),
    ):
        settings = {"stage": Stage.weights}
        data = saved({"module": tiny, "ds_config": settings, "loss_scaler": LossScaler()})
    done = convert(store({"pytorch_model.bin": data}))
    assert done.code == 0, done.said
    assert done.holds(tiny)


def test_41_the_oldest_container(store: Store, convert: Convert) -> None:
    """Members as torch before 0.1.10 wrote them: one storage of four floats, one tensor of 2 x 2."""
    values = torch.tensor([1.0, 2.0, 3.0, 4.0])
    done = convert(store({"pytorch_model.bin": legacy_tar(values)}))
    assert done.code == 0, done.said
    assert done.holds({"w": values.reshape(2, 2)})


def legacy_tar(values: torch.Tensor) -> bytes:
    """`sys_info`, `storages`, `tensors`, `pickle`; the pickle refers to the tensor by its key."""
    little = {"protocol_version": 1000, "little_endian": True}
    storages = pickle.dumps(1, 2) + _named((1, "cpu", torch.FloatStorage))
    storages += len(values).to_bytes(8, "little") + values.numpy().tobytes() + pickle.dumps([], 2)
    numbers = (2, 2, 2, 1, 0)
    tensors = pickle.dumps(1, 2) + _named((2, 1, torch.FloatTensor)) + (2).to_bytes(4, "little")
    tensors += bytes(4) + b"".join(number.to_bytes(8, "little") for number in numbers)
    members = {
        "sys_info": pickle.dumps(little, 2),
        "storages": storages,
        "tensors": tensors,
        "pickle": b"\x80\x02}X\x01\x00\x00\x00wX\x01\x00\x00\x002Qs.",
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _named(fields: tuple[Any, ...]) -> bytes:
    """A tuple whose last field is a class of torch, by its name alone."""
    key, location, kind = fields
    head = b"\x80\x02(" + b"K" + bytes([key])
    place = (
        b"X" + len(location).to_bytes(4, "little") + location.encode()
        if isinstance(location, str)
        else b"K" + bytes([location])
    )
    return head + place + f"ctorch\n{kind.__name__}\n".encode() + b"t."


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
def test_43_torchscript_gives_its_parameters(store: Store, convert: Convert) -> None:
    linear = torch.nn.Linear(2, 2)
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(linear), buffer)
    source = store({"pytorch_model.bin": buffer.getvalue()})
    done = convert(source)
    assert done.code == 0, done.said
    assert done.holds(dict(linear.state_dict()))


def test_44_an_old_output_never_looks_like_a_new_one(
    tiny: State, store: Store, convert: Convert, tmp_path: Path
) -> None:
    good = convert(store({"pytorch_model.bin": tiny}))
    assert good.code == 0
    before = dict(good.files)
    broken = store({"pytorch_model.bin": saved(tiny)[:3000]}, folder="broken")
    with pytest.raises(AssertionError, match="left something behind"):
        convert(broken)  # the output of before is still there: the helper sees it
    after = {
        file.relative_to(good.output).as_posix(): file.read_bytes()
        for file in good.output.rglob("*")
        if file.is_file()
    }
    assert after == before
    assert not (tmp_path / ".output.hfconvert").exists()
    assert convert(broken, output="other").code == 3


def test_46_several_sets_stop_and_are_listed(tiny: State, store: Store, convert: Convert) -> None:
    average = {name: tensor + 1 for name, tensor in tiny.items()}
    source = store({"pytorch_model.bin": {"state_dict": tiny, "state_dict_ema": average}})
    done = convert(source)
    assert done.code == 2
    size = sum(tensor.nbytes for tensor in tiny.values())
    for name in ("state_dict", "state_dict_ema"):
        assert f"{name} (21 tensors, {size} bytes)" in done.findings("error")
    for name, state in (("state_dict", tiny), ("state_dict_ema", average)):
        chosen = convert(source, output=name, reading={"weights": name})
        assert chosen.code == 0
        assert chosen.holds(state)


SYSTEM = b"cos\nsystem\n(X\x04\x00\x00\x00truetR0"


def hostile(tiny: State) -> bytes:
    """A state dict whose pickle also calls `os.system`."""
    data = pickle.dumps(tiny, protocol=2)
    return data[:2] + SYSTEM + data[2:]


def test_danger_stops_a_conversion_and_is_named(
    tiny: State, store: Store, convert: Convert
) -> None:
    done = convert(store({"pytorch_model.bin": hostile(tiny)}))
    assert done.code == 3
    assert "its pickle asks for os.system" in done.findings("error")
    assert "refuse_dangerous: false" in done.said


def test_danger_is_named_where_there_are_no_weights_too(store: Store, convert: Convert) -> None:
    done = convert(store({"pytorch_model.bin": b"\x80\x02" + SYSTEM + b"N."}))
    assert done.code == 3
    assert "os.system" in done.findings("error")


def test_the_recipe_can_read_the_tensors_all_the_same(
    tiny: State, store: Store, convert: Convert
) -> None:
    source = store({"pytorch_model.bin": hostile(tiny)})
    done = convert(source, reading={"refuse_dangerous": False})
    assert done.code == 0, done.said
    assert done.holds(tiny)
    (found,) = done.document["pickle"]
    assert found["dangerous"] == [{"module": "os", "name": "system"}]
    assert "asks for os.system; nothing of it was run" in done.findings("warning")


def test_a_stub_where_a_tensor_should_be(store: Store, convert: Convert) -> None:
    class Int4Tensor:
        def __init__(self) -> None:
            self.packed = torch.ones(3)

    with module("mylib.quant", Int4Tensor=Int4Tensor):
        data = saved({"a.weight": torch.ones(2), "b.weight": Int4Tensor()})
    source = store({"pytorch_model.bin": data})
    done = convert(source)
    assert done.code == 3
    assert "b.weight: a tensor should be here, but it is an object of mylib.quant.Int4Tensor" in (
        done.findings("error")
    )
    done = convert(source, output="dropped", key_map=[{"drop": ["b.weight"]}])
    assert done.code == 0
    assert done.holds({"a.weight": torch.ones(2)})


@pytest.mark.filterwarnings("ignore:.*quantiz.*", "ignore:Sparse")
@pytest.mark.parametrize("dtype", ["keep", "bfloat16"])
def test_quantised_and_sparse_tensors_need_a_step(
    store: Store, convert: Convert, dtype: str
) -> None:
    quantised = torch.quantize_per_tensor(torch.randn(40, 30), 0.1, 3, torch.qint8)
    sparse = torch.eye(9).to_sparse()
    source = store({"pytorch_model.bin": {"q": quantised, "s": sparse, "w": torch.ones(4)}})
    done = convert(source)
    assert done.code == 3
    assert "the step dequantize" in done.said
    assert "the step densify" in done.said
    steps = [{"dequantize": ["*"]}, {"densify": ["s"]}, {"rename": {"q": "x.q"}}]
    done = convert(source, output="made", key_map=steps, dtype=dtype)
    assert done.code == 0, done.said
    kind = torch.bfloat16 if dtype == "bfloat16" else torch.float32
    expected = {"x.q": quantised.dequantize(), "s": torch.eye(9), "w": torch.ones(4)}
    assert done.holds({name: tensor.to(kind) for name, tensor in expected.items()})
    assert done.check("tensors")["status"] == "pass"
    assert done.check("tensors")["measured"]["values"] == 40 * 30 + 81 + 4


def test_a_template_that_reaches_out_is_copied_with_a_warning(
    tiny: State, store: Store, convert: Convert
) -> None:
    settings = {"chat_template": "{{ [].__class__.__base__.__subclasses__() }}"}
    source = store({"pytorch_model.bin": tiny, "tokenizer_config.json": settings})
    done = convert(source)
    assert done.code == 0
    assert "tokenizer_config.json: its chat template asks for `__class__`" in (
        done.findings("warning")
    )
    assert done.json("tokenizer_config.json") == settings


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz", "zstd", "zip", "tar", "tar in gzip"])
def test_what_is_packed_is_unpacked_and_said(
    tiny: State, store: Store, convert: Convert, kind: str
) -> None:
    done = convert(store({"pytorch_model.bin": packed(saved(tiny), kind)}))
    assert done.code == 0, done.said
    assert done.holds(tiny)
    told = done.findings("info")
    if kind in ("zip", "tar"):
        assert f"weights.pt of the {kind} archive is read" in told
    else:
        assert f"{kind.rpartition(' ')[2]} was around it" in told


def packed(data: bytes, kind: str) -> bytes:
    """The bytes of a checkpoint with something around them."""
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("weights.pt", data)
            archive.writestr("notes.txt", "x")
        return buffer.getvalue()
    if kind.startswith("tar"):
        info = tarfile.TarInfo("weights.pt")
        info.size = len(data)
        with tarfile.open(fileobj=buffer, mode="w:gz" if kind.endswith("gzip") else "w") as tar:
            tar.addfile(info, io.BytesIO(data))
        return buffer.getvalue()
    zstd = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    names = {"gzip": "gzip", "bzip2": "bz2", "xz": "lzma", "zstd": zstd}
    made: bytes = importlib.import_module(names[kind]).compress(data)
    return made
