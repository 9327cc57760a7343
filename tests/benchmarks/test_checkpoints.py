"""The benchmarks' input is what torch.save writes; the launcher measures what it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("benchmark") / "source"
    ran = _python("-m", "tests.benchmarks.checkpoints", str(made), "--bytes", "3000000")
    assert ran.returncode == 0, ran.stderr
    return made


@pytest.fixture(scope="module")
def tensors(folder: Path) -> dict[str, torch.Tensor]:
    loaded: dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("*.bin")):
        loaded |= torch.load(file, weights_only=True)
    return loaded


def test_torch_reads_every_tensor_of_the_index(
    folder: Path, tensors: dict[str, torch.Tensor]
) -> None:
    index = json.loads((folder / "pytorch_model.bin.index.json").read_text())
    width = tensors["model.norm.weight"].numel()

    assert set(tensors) == set(index["weight_map"])
    assert len(set(index["weight_map"].values())) == 4
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in tensors.values())
    assert 0.8 < index["metadata"]["total_size"] / 3_000_000 < 1.2
    assert tensors["lm_head.weight"].shape == (4 * width, width)
    assert tensors["model.layers.7.mlp.down_proj.weight"].shape == (width, width * 8 // 3)
    assert all(t.is_contiguous() and t.dtype == torch.float32 for t in tensors.values())


def test_values_are_finite_differ_and_fit_bfloat16(tensors: dict[str, torch.Tensor]) -> None:
    values = torch.cat([t.flatten() for t in tensors.values()])

    assert values.abs().max() < 2
    assert values.abs().min() >= 2**-7
    assert values.bfloat16().isfinite().all()
    assert len({t.flatten()[:8].numpy().tobytes() for t in tensors.values()}) == len(tensors)


def test_storages_lie_where_torch_puts_them(folder: Path) -> None:
    for file in folder.glob("*.bin"):
        reader: Any = torch._C.PyTorchFileReader(str(file))
        names = [name for name in reader.get_all_records() if name.startswith("data/")]
        assert names
        assert {reader.get_record_offset(name) % 64 for name in names} == {0}
        with zipfile.ZipFile(file) as archive:
            assert archive.testzip() is None
            assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


def test_the_launcher_tells_a_child_s_own_peak_and_exit_code(tmp_path: Path) -> None:
    """The child holds 100 MB, this process far more; the launcher must see the child's figure."""
    launch, result = Path(__file__).with_name("launch.py"), tmp_path / "result.json"
    child = "import sys; held = b'x' * 100_000_000; sys.exit(3)"
    ran = _python("-I", "-S", str(launch), str(result), sys.executable, "-I", "-c", child)
    figures = json.loads(result.read_text())

    assert ran.returncode == figures["exit"] == 3
    assert 100e6 < figures["peak_bytes"] < 150e6
    assert figures["seconds"] > 0


def test_torch_reads_the_training_checkpoint_too(tmp_path: Path) -> None:
    from tests.benchmarks.listing import write_both

    training, model = write_both(tmp_path, 300_000)
    loaded = torch.load(training, weights_only=True)
    weights = torch.load(model, weights_only=True)
    assert list(loaded["state_dict"]) == list(weights)
    (optimizer,) = loaded["optimizer_states"]
    shapes = [tensor.shape for tensor in weights.values()]
    assert [one["exp_avg"].shape for one in optimizer["state"].values()] == shapes
    assert [one["exp_avg_sq"].shape for one in optimizer["state"].values()] == shapes
    assert 2.8 < training.stat().st_size / model.stat().st_size < 3.2


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("same_dtype", ["--bytes", "3000000", "--pairs", "1"]),
        ("cast", ["--bytes", "3000000", "--pairs", "1"]),
        ("startup", ["--bytes", "3000000", "--times", "1"]),
        ("listing", ["--bytes", "3000000", "--times", "1", "--pairs", "1"]),
    ],
)
def test_a_benchmark_prints_its_figures(name: str, options: list[str], tmp_path: Path) -> None:
    ran = _python("-m", f"tests.benchmarks.{name}", *options, "--json", "--workdir", str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    figures = json.loads(ran.stdout)

    assert figures["machine"]["cpus"] == os.cpu_count()
    assert not list(tmp_path.iterdir())
    if name == "cast":
        assert figures["output_bytes"] < 0.51 * 3_300_000
        assert len(figures["values compared / not compared"]["pairs"]) == 1
    elif name == "same_dtype":
        assert figures["source_bytes"] > 2_500_000
        assert len(figures["pairs"]) == 1
        assert figures["peak_memory_bytes"] < 80e6
    elif name == "listing":
        assert figures["listing"]["peak_memory_bytes"] < 60e6
        assert figures["weights_out"]["peak_memory_bytes"] < 80e6
    else:
        assert [figures[command]["torch_imported"] for command in ("--help", "plan", "run")] == [
            False,
            False,
            False,
        ]
