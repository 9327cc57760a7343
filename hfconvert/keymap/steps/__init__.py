"""The steps of a key map, one module each: from what the recipe says, a function over checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hfconvert.keymap.applied import StepFunction
from hfconvert.keymap.steps.add_prefix import add_prefix
from hfconvert.keymap.steps.concat import concat
from hfconvert.keymap.steps.densify import densify
from hfconvert.keymap.steps.dequantize import dequantize
from hfconvert.keymap.steps.drop import drop
from hfconvert.keymap.steps.join import join
from hfconvert.keymap.steps.permute_rope import permute_rope
from hfconvert.keymap.steps.qkv import qkv
from hfconvert.keymap.steps.rename import rename
from hfconvert.keymap.steps.resize import resize
from hfconvert.keymap.steps.split import split
from hfconvert.keymap.steps.stack import stack
from hfconvert.keymap.steps.strip_prefix import strip_prefix
from hfconvert.keymap.steps.tie import tie
from hfconvert.keymap.steps.transpose import transpose
from hfconvert.keymap.steps.unstack import unstack
from hfconvert.keymap.steps.untie import untie

# The key of a step in the recipe -> a function of its value and of `where`, which gives positions in it.
# UserError (exit 2) where the value can be seen to be wrong without a checkpoint.
STEPS: Mapping[str, Callable[..., StepFunction]] = {
    "rename": rename,
    "strip_prefix": strip_prefix,
    "add_prefix": add_prefix,
    "drop": drop,
    "join": join,
    "split": split,
    "concat": concat,
    "stack": stack,
    "unstack": unstack,
    "transpose": transpose,
    "qkv": qkv,
    "permute_rope": permute_rope,
    "resize": resize,
    "tie": tie,
    "untie": untie,
    "dequantize": dequantize,
    "densify": densify,
}
