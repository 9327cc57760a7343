"""What the cases share: the small models that they describe, and one way to run the program.

A case has a number; its test says `test_<number>_...`. Sources are written by torch and safetensors.
"""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch

from hfconvert.cli import main
from tests.cases.adapters import ALPHA, R

State = dict[str, torch.Tensor]

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 32,
    "max_position_embeddings": 64,
}
LAYER = {
    "self_attn.q_proj": (16, 16),
    "self_attn.k_proj": (8, 16),
    "self_attn.v_proj": (8, 16),
    "self_attn.o_proj": (16, 16),
    "mlp.gate_proj": (32, 16),
    "mlp.up_proj": (32, 16),
    "mlp.down_proj": (16, 32),
    "input_layernorm": (16,),
    "post_attention_layernorm": (16,),
}


@dataclass(frozen=True)
class Done:
    """What a command left behind: exit code, JSON document, what it said, and the output folder."""

    code: int
    document: dict[str, Any]
    said: str
    output: Path
    files: dict[str, bytes] = field(repr=False)

    def tensors(self) -> State:
        """Every tensor of the output, read by the safetensors library."""
        from safetensors.torch import load

        found: State = {}
        for name, content in self.files.items():
            if name.endswith(".safetensors"):
                tensors = load(content)
                assert not found.keys() & tensors.keys()
                found.update(tensors)
        return found

    def holds(self, expected: Mapping[str, torch.Tensor]) -> bool:
        """Whether the output is exactly these tensors: names, dtypes, shapes and every value."""
        found = self.tensors()
        return found.keys() == expected.keys() and all(
            found[name].dtype == tensor.dtype and torch.equal(found[name], tensor)
            for name, tensor in expected.items()
        )

    def weights(self) -> set[str]:
        """Names of the files that hold weights or an index of them."""
        return {name for name in self.files if ".safetensors" in name or ".bin" in name}

    def json(self, name: str) -> Any:
        """A JSON file of the output."""
        return json.loads(self.files[name])

    def header(self, name: str = "model.safetensors") -> dict[str, Any]:
        """The header of a file of the output, as it stands there."""
        content = self.files[name]
        length = int.from_bytes(content[:8], "little")
        document: dict[str, Any] = json.loads(content[8 : 8 + length])
        return document

    def findings(self, level: str) -> str:
        """Findings of a level as text, one a line: subject and message."""
        return "\n".join(
            f"{one['subject']}: {one['message']}"
            for one in self.document["findings"]
            if one["level"] == level
        )

    def check(self, name: str) -> dict[str, Any]:
        """The check of that name."""
        (found,) = (check for check in self.document["checks"] if check["name"] == name)
        assert isinstance(found, dict)
        return found


Convert = Callable[..., Done]
Store = Callable[..., Path]


@pytest.fixture
def tiny() -> State:
    """TINY: llama-shaped, 21 tensors, untied."""
    generator = torch.Generator().manual_seed(7)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (32, 16)}
    for layer in range(2):
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in LAYER.items()}
    shapes |= {"model.norm.weight": (16,), "lm_head.weight": (32, 16)}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


@pytest.fixture
def tiny_tied(tiny: State) -> State:
    """TINY-T: the same with tied embeddings: both names over one storage."""
    return {**tiny, "lm_head.weight": tiny["model.embed_tokens.weight"]}


@pytest.fixture
def config() -> dict[str, Any]:
    """The configuration of TINY."""
    return {**CONFIG, "tie_word_embeddings": False}


@pytest.fixture
def config_tied() -> dict[str, Any]:
    """The configuration of TINY-T."""
    return {**CONFIG, "tie_word_embeddings": True}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Write a source folder: files by name (a state dict is saved by its ending), configuration, index."""

    def write(
        files: Mapping[str, Any], *, config: Mapping[str, Any] | None = None, folder: str = "source"
    ) -> Path:
        root = tmp_path / folder
        root.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            _write(root / name, content)
        if config is not None:
            (root / "config.json").write_text(json.dumps(dict(config)))
        return root

    return write


@pytest.fixture
def convert(tmp_path: Path) -> Convert:
    """Write a recipe for a source and run a command on it, as the console script does.

    Checks that load a model are off unless the recipe names them: they have tests of their own.
    """

    def run(
        source: Path,
        *,
        command: str = "run",
        output: str = "output",
        options: Iterable[str] = (),
        reading: Mapping[str, Any] = MappingProxyType({}),
        **recipe: Any,
    ) -> Done:
        target = tmp_path / output
        validate = {"architecture": "off", "logits": "off", **recipe.pop("validate", {})}
        document = {
            "version": 1,
            "source": {"path": str(source), **reading},
            **recipe,
            "validate": validate,
        }
        path = tmp_path / "recipe.yaml"
        path.write_text(json.dumps(document, indent=2))
        arguments = [command, str(path), "--output", str(target), "--json", *options]
        code, out, said = _main(arguments)
        assert "Traceback" not in said, said
        files = {
            file.relative_to(target).as_posix(): file.read_bytes()
            for file in target.rglob("*")
            if file.is_file()
        }
        if code:
            assert files == {}, "a run that failed left something behind"
        return Done(code, json.loads(out), said, target, files)

    return run


@pytest.fixture
def sharded() -> Callable[..., dict[str, Any]]:
    """Cut a state dict into shards, with their index, as transformers writes them."""
    return _sharded


def _sharded(
    state: State, shards: int, stem: str = "pytorch_model", ending: str = "bin"
) -> dict[str, Any]:
    names = list(state)
    size = -(-len(names) // shards)
    files: dict[str, Any] = {}
    weight_map: dict[str, str] = {}
    for number in range(shards):
        file = f"{stem}-{number + 1:05}-of-{shards:05}.{ending}"
        part = names[number * size : (number + 1) * size]
        files[file] = {name: state[name] for name in part}
        weight_map |= dict.fromkeys(part, file)
    total = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    files[f"{stem}.{ending}.index.json"] = index
    return files


def _write(path: Path, content: Any) -> None:
    from safetensors.torch import save_file

    if isinstance(content, bytes):
        path.write_bytes(content)
    elif path.suffix == ".json":
        path.write_text(json.dumps(content))
    elif path.suffix == ".safetensors":
        state, metadata = content if isinstance(content, tuple) else (content, None)
        save_file(state, path, metadata=metadata)
    else:
        torch.save(content, path)


def _main(arguments: list[str]) -> tuple[int, str, str]:
    out, said = io.StringIO(), io.StringIO()
    argv, handler = sys.argv, signal.getsignal(signal.SIGTERM)
    sys.argv = ["hfconvert", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            code = main()
    finally:
        sys.argv = argv
        signal.signal(signal.SIGTERM, handler)
    return int(code), out.getvalue(), said.getvalue()


@pytest.fixture
def adapt(store: Callable[..., Path]) -> Callable[..., Path]:
    """ADP(targets): an adapter folder as PEFT saves it; fields go into its configuration."""

    def write(
        factors: Mapping[str, torch.Tensor], *, folder: str = "adapter", **fields: Any
    ) -> Path:
        config = {
            "peft_type": "LORA",
            "r": R,
            "lora_alpha": ALPHA,
            "target_modules": ["q_proj"],
            "base_model_name_or_path": "./base",
            **fields,
        }
        return store(
            {"adapter_model.safetensors": dict(factors), "adapter_config.json": config},
            folder=folder,
        )

    return write
