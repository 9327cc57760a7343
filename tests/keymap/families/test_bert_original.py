"""Against transformers' own BERT: the names that it has today, from every form that BERT has had."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from hfconvert.errors import UserError
from hfconvert.keymap.apply import apply

Any_ = Callable[..., Any]
Arrays = dict[str, Any]


def _where(*path: object) -> str:
    return ".".join(map(str, path))


def _tiny(kind: str = "BertForPreTraining") -> Arrays:
    import transformers

    config = transformers.BertConfig(
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=12,
        vocab_size=11,
    )
    torch.manual_seed(3)
    model = getattr(transformers, kind)(config)
    return {
        name: tensor.numpy().view("<u4")
        for name, tensor in model.state_dict().items()
        if not name.startswith("cls.predictions.decoder.")  # tied, or a copy of its bias
    }


def _gamma_beta(arrays: Arrays) -> Arrays:
    """The first PyTorch ports."""
    names = ("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")
    return {_replaced(name, names): array for name, array in arrays.items()}


def _replaced(name: str, pairs: Any) -> str:
    for old, new in pairs:
        name = name.replace(old, new)
    return name


def _tensorflow(arrays: Arrays, separator: str = "/") -> Arrays:
    """Google's release: slashes, layer_0, kernels that multiply from the right, bare embeddings."""
    found = {}
    for name, array in arrays.items():
        new = re.sub(r"layer\.(\d+)", r"layer_\1", name)
        new = _replaced(
            new, [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")]
        )
        new = new.replace("embeddings.weight", "embeddings")
        new = _replaced(
            new,
            [
                ("cls.predictions.bias", "cls.predictions.output_bias"),
                ("cls.seq_relationship.weight", "cls.seq_relationship.output_weights"),
                ("cls.seq_relationship.bias", "cls.seq_relationship.output_bias"),
            ],
        )
        kernel = new.endswith(".weight")
        new = new.removesuffix("weight") + "kernel" if kernel else new
        found[new.replace(".", separator)] = np.ascontiguousarray(array.T) if kernel else array
    return found


def _with_optimizer(arrays: Arrays) -> Arrays:
    slots = {
        f"{name}/{slot}": array for name, array in arrays.items() for slot in ("adam_m", "adam_v")
    }
    return {**arrays, **slots, "global_step": np.zeros((), "<i8").view("<u8")}


FORMS: Mapping[str, Callable[[Arrays], Arrays]] = {
    "gamma and beta": _gamma_beta,
    "tensorflow": _tensorflow,
    "tensorflow with its optimizer": lambda arrays: _with_optimizer(_tensorflow(arrays)),
    "dots for slashes": lambda arrays: _tensorflow(arrays, "."),
    "position_ids": lambda arrays: {
        **_gamma_beta(arrays),
        "bert.embeddings.position_ids": np.zeros((1, 4), "<u8"),
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_value_is_that_of_transformers(
    holding: Any_, values: Any_, step: Any_, form: str
) -> None:
    expected = _tiny()
    before = holding(FORMS[form](expected))
    result = apply(before, [step("family", {"name": "bert-original"})], _where)
    found = values(result.checkpoint)
    assert set(found) == set(expected)
    assert all(np.array_equal(found[name], array) for name, array in expected.items())


def test_a_bare_model_keeps_its_names_without_a_prefix(holding: Any_, step: Any_) -> None:
    expected = _tiny("BertModel")
    before = holding(_gamma_beta(expected))
    result = apply(before, [step("family", {"name": "bert-original"})], _where)
    assert set(result.checkpoint) == set(expected)


def test_the_prefix_can_be_taken_off(holding: Any_, step: Any_) -> None:
    expected = _tiny("BertModel")
    before = holding(_tensorflow({f"bert.{name}": array for name, array in expected.items()}))
    key_map = [step("family", {"name": "bert-original", "prefix": "none"})]
    assert set(apply(before, key_map, _where).checkpoint) == set(expected)


@pytest.mark.parametrize("form", ["gamma and beta", "tensorflow"])
def test_all_199_keys_of_twelve_layers(checkpoint: Any_, step: Any_, form: str) -> None:
    import transformers

    with torch.device("meta"):
        model = transformers.BertModel(transformers.BertConfig())
    expected = [f"bert.{name}" for name in model.state_dict()]
    assert len(expected) == 199
    named = FORMS[form]({name: np.zeros((1, 1), "u1") for name in expected})
    before = _matrices(checkpoint, named)
    result = apply(before, [step("family", {"name": "bert-original"})], _where)
    assert sorted(result.checkpoint) == sorted(expected)
    assert "199 tensors: 199 mapped, 0 dropped" in result.findings[-1].message


def _matrices(checkpoint: Any_, arrays: Arrays) -> Any:
    """Matrices [1, 2] under those names: a transpose asks for two dimensions."""
    from hfconvert.tensors.checkpoint import found
    from hfconvert.tensors.dtype import BY_CODE
    from hfconvert.tensors.lazy import TensorSpec
    from hfconvert.tensors.leaf import Leaf

    source = checkpoint(["x"])["x"].tensor.source
    spec = TensorSpec(BY_CODE["F32"], (1, 2))
    return found({name: Leaf.packed(spec, source, 8 * i) for i, name in enumerate(arrays)})


def test_a_module_that_bert_does_not_have(holding: Any_, step: Any_) -> None:
    arrays = {**_gamma_beta(_tiny()), "bert.encoder.adapter.weight": np.zeros((2, 2), "<u4")}
    with pytest.raises(UserError, match=r"1 names are not known to the family `bert-original`"):
        apply(holding(arrays), [step("family", {"name": "bert-original"})], _where)


def test_todays_names_are_no_work_for_the_family(holding: Any_, step: Any_) -> None:
    with pytest.raises(UserError, match="no step of the family"):
        apply(holding(_tiny()), [step("family", {"name": "bert-original"})], _where)
