"""One side of the comparison: a folder, loaded by transformers in float32, and what it computes.

Imports torch and transformers inside functions. Both sides have the same seed, attention and inputs, and are
in eval mode; each is dropped before the other is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hfconvert.checks.logits.inputs import SEED, Batch, Inputs
from hfconvert.checks.logits.measure import Output

# What a class calls the output that is compared, the first that it has.
OUTPUTS = (
    "logits",
    "prediction_logits",
    "start_logits",
    "logits_per_image",
    "last_hidden_state",
    "embeds",
    "text_embeds",
    "image_embeds",
    "audio_embeds",
    "pooler_output",
    "reconstruction",
    "prediction_outputs",
    "predicted_depth",
    "pred_boxes",
)


class NoOutputError(Exception):
    """The model gives nothing that can be compared."""


@dataclass(frozen=True, slots=True)
class Computed:
    """The output of every input, which output it is, and hidden states of the first by layer."""

    name: str
    outputs: tuple[Output, ...]
    layers: tuple[Output, ...]


def load_model(cls: Any, folder: Path, *, custom: bool) -> tuple[Any, Mapping[str, Any]]:
    """The model in float32 and eval mode, and what transformers says of its loading."""
    import torch

    options: dict[str, Any] = {"dtype": torch.float32, "local_files_only": True}
    if custom:
        options["trust_remote_code"] = True
    for attention in ({"attn_implementation": "eager"}, {}):
        torch.manual_seed(SEED)  # what is missing on both sides is the same on both
        try:
            with _no_bars():
                model, info = cls.from_pretrained(
                    folder, output_loading_info=True, **options, **attention
                )
        except ValueError:
            if not attention:
                raise
            continue
        return model.eval(), info
    raise AssertionError("the second attempt either returns or raises")


@contextmanager
def _no_bars() -> Iterator[None]:
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def compute(model: Any, inputs: Inputs) -> Computed:
    """Run every input. Raises what the model raises, and NoOutputError."""
    outputs: list[Output] = []
    layers: tuple[Output, ...] = ()
    name = ""
    for number, batch in enumerate(inputs.batches):
        result = forward(model, batch, hidden=number == 0)
        name, output = picked(result)
        outputs += np.split(output, len(inputs.labels)) if len(inputs.batches) == 1 else [output]
        if number == 0:
            layers = _layers(result)
    return Computed(name, tuple(outputs), layers)


def forward(model: Any, batch: Batch, *, hidden: bool) -> Any:
    """One forward, from the seed."""
    import torch

    torch.manual_seed(SEED)
    with torch.inference_mode():
        if hidden:
            try:
                return model(**batch, output_hidden_states=True, return_dict=True)
            except (TypeError, ValueError, AttributeError):
                torch.manual_seed(SEED)
        return model(**batch, return_dict=True)


def picked(result: Any) -> tuple[str, Output]:
    """The output to compare, as positions by values."""
    import torch

    known = dict(result.items()) if hasattr(result, "items") else {"output": result}
    for name in (*OUTPUTS, *known):
        value = known.get(name)
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
            return name, as_matrix(value)
    raise NoOutputError(f"its forward gives {', '.join(known) or 'nothing'}")


def as_matrix(value: Any) -> Output:
    """A tensor as positions by values; its last dimension is that of the values."""
    array: Output = value.detach().float().cpu().numpy()
    return array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(1, -1)


def _layers(result: Any) -> tuple[Output, ...]:
    for name in ("hidden_states", "decoder_hidden_states", "encoder_hidden_states"):
        states = getattr(result, name, None)
        if states:
            return tuple(as_matrix(one) for one in states if one is not None)
    return ()


def finite(computed: Computed) -> bool:
    """Whether every output holds finite numbers alone."""
    return all(bool(np.isfinite(one).all()) for one in computed.outputs)
