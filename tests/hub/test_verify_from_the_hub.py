"""`verify` with repositories in either place, whole and broken; what a recipe names may be one too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from hfconvert.console import Console
from hfconvert.errors import Exit, UserError
from hfconvert.recipe import parse
from hfconvert.report.documents import report_document
from hfconvert.verifying.verify import verify
from tests.hub.loopback.server import RunningHub

State = dict[str, torch.Tensor]
Files = dict[str, bytes]
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 20}
CONFIG = {
    **SIZES,
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "intermediate_size": 16,
    "tie_word_embeddings": False,
    "dtype": "float32",
}
OUT = Console(verbosity=-1)

pytestmark = pytest.mark.usefixtures("lfs")


@pytest.fixture
def state() -> State:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(5)
    model = LlamaForCausalLM(LlamaConfig.from_dict(CONFIG))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return dict(model.state_dict())


def candidate(state: State, **more: bytes) -> Files:
    files = {"model.safetensors": save(state, {"format": "pt"})}
    return {**files, "config.json": json.dumps(CONFIG).encode(), **more}


@pytest.fixture
def source(hub: RunningHub, state: State, tmp_path: Path) -> Files:
    """`owner/m`, pickled."""
    torch.save(state, tmp_path / "weights.bin")
    pickled = (tmp_path / "weights.bin").read_bytes()
    files = {"pytorch_model.bin": pickled, "config.json": json.dumps(CONFIG).encode()}
    hub.repo("owner/m", files)
    return files


@pytest.fixture
def place(tmp_path: Path, hub: RunningHub) -> Callable[[Files, str], str]:
    """Files as a folder or as a repository; the name by which `verify` takes them."""

    def put(files: Files, kind: str) -> str:
        if kind == "repository":
            hub.repo("owner/converted", files)
            return "owner/converted"
        folder = tmp_path / "folder"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return str(folder)

    return put


def failed(document: dict[str, Any]) -> set[str]:
    return {one["name"] for one in document["checks"] if one["status"] == "fail"}


def said(document: dict[str, Any]) -> str:
    return "\n".join(f"{one['subject']}: {one['message']}" for one in document["findings"])


@pytest.mark.parametrize("kind", ["folder", "repository"])
def test_every_difference_is_named(source: Files, state: State, place: Any, kind: str) -> None:
    wrong = dict(state)
    wrong["extra.weight"] = torch.ones(2)
    del wrong["model.norm.weight"]
    layer = "model.layers.0.self_attn."
    wrong[f"{layer}q_proj.weight"] = state[f"{layer}k_proj.weight"].clone()
    tokenizer = b'{"version": "1.0"}'
    other = place(
        candidate(wrong, **{"tokenizer.json": tokenizer, "modeling_x.py": b"x = 1\n"}), kind
    )
    document = report_document(verify("owner/m", other, None, OUT))
    assert document["status"] == "failed"
    assert failed(document) == {"names", "tensors", "files"}
    for words in (
        "1 tensors are missing: `model.norm.weight`",
        "1 tensors were added that the source lacks: `extra.weight`",
        f"these are the values of {layer}k_proj.weight",
        "tokenizer.json: added: the source does not have it",
        "modeling_x.py: added: the source does not have it",
    ):
        assert words in said(document)


def test_a_folder_is_the_source_of_a_repository(
    source: Files, state: State, place: Any, hub: RunningHub
) -> None:
    hub.repo("owner/converted", candidate(state))
    report = verify(place(source, "folder"), "owner/converted@main", None, OUT)
    assert report.status == "verified"
    assert report.candidate is not None
    assert report.candidate["repo"] == "owner/converted"


@pytest.mark.parametrize("kind", ["folder", "repository"])
def test_a_missing_shard_is_a_failed_check(
    source: Files, state: State, place: Any, kind: str
) -> None:
    names = sorted(state)
    files = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    index = {"weight_map": {name: files[at % 2] for at, name in enumerate(names)}}
    stored = {
        files[0]: save({name: state[name] for name in names[::2]}, {"format": "pt"}),
        "model.safetensors.index.json": json.dumps(index).encode(),
        "config.json": source["config.json"],
    }
    report = verify("owner/m", place(stored, kind), None, OUT)
    document = report_document(report)
    assert (document["status"], failed(document)) == ("failed", {"names"})
    assert files[1] in said(document)


@pytest.mark.parametrize("kind", ["folder", "repository"])
def test_no_weights_at_all_are_a_failed_check(source: Files, place: Any, kind: str) -> None:
    document = report_document(
        verify("owner/m", place({"README.md": b"# Soon\n"}, kind), None, OUT)
    )
    assert (document["status"], failed(document)) == ("failed", {"names"})


def test_a_candidate_that_is_not_there_is_exit_4(source: Files) -> None:
    with pytest.raises(UserError) as caught:
        verify("owner/m", "owner/nothing", None, OUT)
    assert caught.value.exit == Exit.HUB


def test_what_a_recipe_names_may_be_repositories(
    source: Files, state: State, hub: RunningHub
) -> None:
    """The source calls its queries otherwise; the reference is a third repository."""
    hub.repo("owner/reference", candidate(state))
    old = {name.replace("q_proj", "query"): one for name, one in state.items()}
    hub.repo("owner/old", {**candidate(old)})
    hub.repo("owner/converted", candidate({name: one.bfloat16() for name, one in state.items()}))
    config = json.dumps({**CONFIG, "dtype": "bfloat16"}).encode()
    hub.push("owner/converted", {"config.json": config})
    recipe = parse(
        "version: 1\nsource: {repo: owner/m}\nkey_map: [{rename: {'*.query.*': '*.q_proj.*'}}]\n"
        "dtype: bfloat16\nvalidate: {reference: owner/reference}\n",
        "recipe.yaml",
    )
    document = report_document(verify("owner/old", "owner/converted", recipe, OUT))
    status = {one["name"]: one["status"] for one in document["checks"]}
    assert status == dict.fromkeys(
        ("names", "tensors", "dtypes", "files", "architecture", "logits"), "pass"
    ), said(document)
