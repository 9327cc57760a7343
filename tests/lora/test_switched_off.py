"""A tie that is undone undoes the others of the model: `tie_word_embeddings` is one switch for all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

State = dict[str, torch.Tensor]


@pytest.mark.filterwarnings("ignore")
def test_every_name_of_the_shared_embedding_is_written(
    merge: Callable[..., State], tmp_path: Path
) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": 64, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_heads": 2}
    model = T5ForConditionalGeneration(T5Config(num_layers=1, **sizes))
    model.config.save_pretrained(tmp_path / "base")
    torch.save(model.state_dict(), tmp_path / "base" / "pytorch_model.bin")
    before = model.shared.weight.detach().clone()
    config = LoraConfig(r=4, target_modules=["lm_head"], init_lora_weights=False)
    adapted: Any = get_peft_model(model, config)
    adapted.save_pretrained(tmp_path / "adapter")
    ours = merge(tmp_path / "base", tmp_path / "adapter")
    for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"):
        assert torch.equal(ours[f"{name}.weight"], before), name
    update = adapted.base_model.model.lm_head.get_delta_weight("default")
    assert torch.equal(ours["lm_head.weight"], before + update)
