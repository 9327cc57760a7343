"""`lora`: which adapters are merged, and how."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, StrictFloat

from hfconvert.recipe.location import Location, LocationText
from hfconvert.recipe.model import Model, Text


class Adapter(Model):
    """One adapter and its weight in the sum."""

    adapter: LocationText = Field(description="A path, or org/name[@revision].")
    revision: Text = Field("main", description="Branch, tag or commit of the adapter.")
    weight: StrictFloat = Field(1.0, description="Factor of its update.")

    @property
    def location(self) -> Location:
        """The path, or the repository with its revision."""
        if self.adapter.path is not None or self.adapter.revision is not None:
            return self.adapter
        return replace(self.adapter, revision=self.revision)


class Lora(Model):
    """Adapters to merge, in order."""

    adapters: Annotated[tuple[Adapter, ...], Field(min_length=1)] = Field(
        description="The adapters, in the order in which they are merged."
    )
    base: Text | None = Field(
        None, description="The base model's identity to accept, as the adapter records it."
    )
    peft_version: Text | None = Field(
        None, description="Only where shapes leave the layout of target_parameters open."
    )
    compute_dtype: Literal["float32", "native"] = Field(
        "float32", description="native: as PEFT merges at the stored dtypes."
    )
    engine: Literal["auto", "module", "model"] = Field(
        "auto", description="module: one at a time; model: whole, with PEFT's merge_and_unload."
    )
    lora_alpha: Annotated[StrictFloat, Field(gt=0)] | None = Field(
        None, description="Only where no file records it."
    )
    on_tie: Literal["untie", "error"] = Field(
        "untie", description="When an adapter changes one of two tied tensors."
    )
    base_quantization: Literal["refuse", "dequantize"] = Field(
        "refuse", description="When the base is quantised."
    )
