"""Key maps over the models of this room: rows of attention rearranged, and its projections split."""

from __future__ import annotations

from typing import Any

HALF = [
    {"permute_rope": {"names": ["*.q_proj.weight", "*.k_proj.weight"], "heads": 4, "to": "half"}}
]
FUSED: dict[str, Any] = {
    "from": "model.layers.{i}.self_attn.qkv.weight",
    "into": [f"model.layers.{{i}}.self_attn.{one}_proj.weight" for one in "qkv"],
    "layout": "blocked",
    "heads": 4,
    "kv_heads": 4,
}
