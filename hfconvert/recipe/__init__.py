"""Recipes: YAML text with positions, checked as a whole, as frozen values. Never imports torch."""

from __future__ import annotations

from hfconvert.recipe.loading import load, parse, substitute
from hfconvert.recipe.location import Location, parse_location
from hfconvert.recipe.models import Recipe

__all__ = ["Location", "Recipe", "load", "parse", "parse_location", "substitute"]
