"""Types whose default configuration is not one that a model can be built from: what has to be given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Values = Mapping[str, Any]

_HEAD: Values = {"head_dim": 16}
_SERIES: Values = {"prediction_length": 4}
_ROPE: Values = {"rope_type": "default", "rope_theta": 10000.0}
_EXPERTS: Values = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32}
_DENSE: Values = {
    "mlp_layer_types": ["dense", "sparse"],
    "num_hidden_layers": 2,
    "num_experts_per_tok": 2,
}
_TALKER: Values = {"shared_expert_intermediate_size": 64}


def _backbone(kind: str, *stages: int) -> Values:
    """A backbone of transformers' own in place of one of timm's."""
    features = [f"stage{stage}" for stage in stages]
    return {"backbone_config": {"model_type": kind, "out_features": features}}


SPECIAL: Mapping[str, Values] = {
    "autoformer": _SERIES,
    "chameleon": {"vocabulary_map": {"<image>": 5}},
    "cohere_compass": {"text_config": {"rope_parameters": {"full_attention": _ROPE}}},
    "cohere_compass_text": {"rope_parameters": {"full_attention": _ROPE}},
    "conditional_detr": _backbone("resnet", 1, 2, 3, 4),
    "cosmos3_edge": {"text_config": {"head_dim": 128}},
    "cosmos3_edge_text": {"head_dim": 128},
    "dab-detr": _backbone("resnet", 1, 2, 3, 4),
    "dbrx": {"attn_config": {"rope_theta": 10000.0}},
    "deepseek_ocr2": {"text_config": _DENSE},
    "deepseek_ocr2_text": _DENSE,
    "deformable_detr": _backbone("resnet", 2, 3, 4),
    "detr": _backbone("resnet", 1, 2, 3, 4),
    "diffusion_gemma": {"text_config": _EXPERTS},
    "diffusion_gemma_text": _EXPERTS,
    "dots3_note_audio_encoder": {"hidden_size": 80, "adapter_input_size": 80},
    "esm": {"vocab_size": 33, "mask_token_id": 32, "pad_token_id": 1},
    "gemma3n": {"text_config": {"num_kv_shared_layers": 0}},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "gemma4_assistant": {
        "text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
    },
    "hunyuan_v1_dense": _HEAD,
    "hunyuan_v1_moe": _HEAD,
    "hunyuan_vl": {"text_config": _HEAD},
    "hunyuan_vl_text": _HEAD,
    "hy_v4_vl": {"text_config": {"qk_rope_head_dim": 64}},
    "hy_v4_vl_text": {"qk_rope_head_dim": 64},
    "informer": _SERIES,
    "kimi_k25": {"vision_config": {"hidden_size": 64, "num_attention_heads": 4}},
    "levit": {"hidden_sizes": [32, 64, 96], "key_dim": [8, 8, 8]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "lw_detr": {"projector_scale_factors": [1.0]},
    "ministral": _HEAD,
    "moonshine_streaming": {"num_key_value_heads": 8},
    "nemotron": {"num_key_value_heads": 8},
    "omdet-turbo": _backbone("swin", 2, 3, 4),
    "perceiver": {"d_latents": 64, "d_model": 64, "num_self_attends_per_block": 2},
    "pix2struct_text_model": {"initializer_range": 0.02},
    "qwen3_omni_moe": {"talker_config": {"text_config": _TALKER, "spatial_merge_size": 2}},
    "qwen3_omni_moe_talker_text": _TALKER,
    "reformer": {"is_decoder": True},
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    "table-transformer": _backbone("resnet", 1, 2, 3, 4),
    "time_series_transformer": _SERIES,
    "wav2vec2-bert": {"vocab_size": 32},
    "wav2vec2-conformer": {"vocab_size": 32},
}
