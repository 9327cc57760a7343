"""Flattened module names with their dots put back, for the models whose words are known.

Words with underscores are those of CLIP, of diffusers' UNet and transformers, of Flux and of llama.
"""

from __future__ import annotations

_JOINED = (
    "text_model vision_model self_attn q_proj k_proj v_proj o_proj out_proj gate_proj up_proj down_proj "
    "input_layernorm post_attention_layernorm embed_tokens lm_head position_embedding token_embedding "
    "down_blocks up_blocks mid_block transformer_blocks single_transformer_blocks proj_in proj_out "
    "to_q to_k to_v to_out to_add_out add_q_proj add_k_proj add_v_proj ff_context proj_mlp "
    "time_emb_proj conv_in conv_out conv_shortcut time_embedding add_embedding linear_1 linear_2 "
    "context_embedder x_embedder time_text_embed norm1_context double_blocks single_blocks img_attn "
    "txt_attn img_mod txt_mod img_mlp txt_mlp final_layer img_in txt_in time_in vector_in guidance_in"
)
_SINGLE = (
    "encoder decoder layers mlp fc1 fc2 attentions resnets downsamplers upsamplers attn1 attn2 attn ff "
    "net proj conv conv1 conv2 model norm linear linear1 linear2 qkv lin modulation"
)
_WITH_UNDERSCORES = frozenset(_JOINED.split())
_PLAIN = frozenset(_SINGLE.split())
_LONGEST = 4  # pieces of a word


def dotted(flat: str) -> str | None:
    """The name with its dots; None where a piece of it is no known word."""
    pieces = flat.split("_")
    words = []
    at = 0
    while at < len(pieces):
        size = _size(pieces, at)
        if size is None:
            return None
        words.append("_".join(pieces[at : at + size]))
        at += size
    return ".".join(words)


def _size(pieces: list[str], at: int) -> int | None:
    """How many pieces make the word that begins here: the longest known one."""
    for size in range(min(_LONGEST, len(pieces) - at), 1, -1):
        if "_".join(pieces[at : at + size]) in _WITH_UNDERSCORES:
            return size
    return 1 if pieces[at].isdigit() or pieces[at] in _PLAIN else None
