"""Types that do not come through, each with whose fault it is and why.

`transformers`: its class cannot load what it saved itself, which the run tries. `hfconvert`: ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class Explained(NamedTuple):
    """Whose fault it is that a type does not come through, and what is wrong."""

    whose: Literal["transformers", "hfconvert"]
    reason: str


_PADDING = Explained(
    "transformers", "its initialisation zeroes the row of the padding token after it was loaded"
)
_NO_POST_INIT = Explained(
    "transformers", "its class never calls `post_init`, without which nothing can be loaded"
)
_TUPLE = Explained(
    "transformers", "its `from_pretrained` takes the pair of model and loading info for the model"
)
_VOICES = Explained("transformers", "it loads the file `spk_dict.pt`, which it does not save")

CONVERT: Mapping[str, Explained] = {
    "chinese_clip": _PADDING,
    "chinese_clip_text_model": _PADDING,
    "inkling_audio": _NO_POST_INIT,
    "jev": _TUPLE,
    "qwen2_5_omni": _VOICES,
}
MERGE: Mapping[str, Explained] = {
    "chinese_clip": _PADDING,
    "chinese_clip_text_model": _PADDING,
    "jev": _TUPLE,
    "qwen2_5_omni": _VOICES,
}
EXPLAINED: Mapping[str, Mapping[str, Explained]] = {"convert": CONVERT, "merge": MERGE}
