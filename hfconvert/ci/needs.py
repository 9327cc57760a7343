"""What the recipes of a step need beyond the base install: the extra with torch, or nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hfconvert.ci.inputs import Inputs, read_inputs
from hfconvert.ci.jobs import load
from hfconvert.errors import UserError
from hfconvert.keymap.families.table import AT_RUN_TIME
from hfconvert.recipe import Recipe
from hfconvert.recipe.steps import Family
from hfconvert.recipes import is_recipe

MODELS = "models"


def extra(environment: Mapping[str, str]) -> str:
    """`models` where a recipe of the step needs it, else nothing. Reads files of recipes and nothing else.

    Inputs and recipes that cannot be read need nothing: the step itself says what is wrong with them.
    """
    try:
        inputs = read_inputs(environment)
    except UserError:
        return ""
    os.chdir(inputs.folder)
    return MODELS if any(_needs_models(inputs, label) for label in inputs.recipes) else ""


def needs_models(recipe: Recipe) -> bool:
    """Whether a model is run for a recipe, or a library asked that has models.

    Values that are not computed have the logits that they had. Those of a cast and of a merge are compared,
    and merges beyond plain LoRA are PEFT's.
    """
    steps = recipe.key_map or ()
    if any(isinstance(step, Family) and step.family.name in AT_RUN_TIME for step in steps):
        return True
    wish = recipe.validation
    asks = wish.logits != "auto" or wish.reference is not None or not recipe.dtype.keeps_all
    return recipe.lora is not None or wish.trust_remote_code or (asks and wish.logits != "off")


def _needs_models(inputs: Inputs, label: str) -> bool:
    try:
        return inputs.mode == "run" and is_recipe(label) and needs_models(load(inputs, label))
    except UserError:
        return False
