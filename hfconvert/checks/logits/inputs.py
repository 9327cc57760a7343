"""What a model is asked: prompts through its tokenizer, else ids, images or sounds from a seed.

Every input is a batch of one without padding, so that no mask can differ. A class takes its own main input;
where that is not enough, more is offered until its forward accepts it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEED = 20240229
LENGTH = 24  # ids of an input from the seed
INPUTS = 4
AUDIO = 4000  # samples of a wave
FRAMES = 200  # of a spectrogram, where the configuration does not say

PROMPTS = (
    "The river rose in the night, and by the morning the old bridge was gone.",
    "def area(width, height):\n    return width * height\n",
    "Two and three are five, five and seven are twelve, and twelve and nine are",
    "Morgen wird das Wetter besser, sagte sie und schloss das Fenster.",
)

# Files that hold the vocabulary of a tokenizer.
_VOCABULARIES = ("tokenizer.json", "*.model", "vocab.*", "*.tiktoken", "tekken.json", "merges.txt")

Batch = dict[str, Any]  # keyword arguments of a forward: tensors by name


@dataclass(frozen=True, slots=True)
class Inputs:
    """Batches of one input each, what each is called, and whether they are text that means something."""

    batches: tuple[Batch, ...]
    labels: tuple[str, ...]
    is_text: bool

    def ids(self) -> list[list[int]]:
        """The token ids of each input."""
        return [row for batch in self.batches for row in batch["input_ids"].tolist()]

    def stacked(self) -> Inputs:
        """The same inputs as one batch, so that a layer that is read serves them all.

        Texts are cut to the shortest of them: there is no padding.
        """
        import torch

        shortest = min((len(row) for row in self.ids()), default=0) if self._has_ids else 0
        joined = {
            name: torch.cat([_cut(batch[name], name, shortest) for batch in self.batches])
            for name in self.batches[0]
        }
        return Inputs((joined,), self.labels, self.is_text)

    @property
    def _has_ids(self) -> bool:
        return "input_ids" in self.batches[0]


class InputsError(Exception):
    """The inputs that were asked for cannot be made."""


def _cut(value: Any, name: str, length: int) -> Any:
    return value[:, :length] if name in {"input_ids", "attention_mask"} else value


def attempts(model: Any, folder: Path, prompts: Sequence[str] | None) -> Iterator[Inputs]:
    """Inputs that the model may accept, the most telling first.

    `prompts` of a recipe have to work; without any, those of `PROMPTS` are tried, then ids from the seed.
    """
    if "input_ids" in _parameters(model):
        yield from _texts(model, folder, prompts)
    elif prompts:
        raise InputsError("the model reads no text: it cannot be asked by prompts")
    yield _seeded(model, with_text="input_ids" in _parameters(model))


def _texts(model: Any, folder: Path, prompts: Sequence[str] | None) -> Iterator[Inputs]:
    """Tokenised prompts: alone, then with an image for classes that want one too."""
    try:
        ids = _tokenised(folder, prompts or PROMPTS, _vocabulary(model))
    except Exception as error:  # a tokenizer raises what it likes
        if prompts:
            raise InputsError(f"the prompts cannot be tokenised: {error}") from error
        return
    labels = tuple(_short(text) for text in prompts or PROMPTS)
    for image in (False, True):
        batches = tuple(_batch(model, one, with_image=image) for one in ids)
        yield Inputs(batches, labels, is_text=True)


def _tokenised(folder: Path, prompts: Sequence[str], vocabulary: int) -> list[Any]:
    import torch
    from transformers import AutoTokenizer

    if not any(any(folder.glob(pattern)) for pattern in _VOCABULARIES):
        raise InputsError("there is no tokenizer")  # transformers would make an empty one
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    ids = [torch.tensor([tokenizer(text)["input_ids"]]) for text in prompts]
    for one in ids:
        if not one.numel() or int(one.max()) >= vocabulary:
            raise InputsError(
                f"the tokenizer gives id {int(one.max())}, the vocabulary has {vocabulary}"
            )
    return ids


def _seeded(model: Any, *, with_text: bool) -> Inputs:
    import torch

    generator = torch.Generator().manual_seed(SEED)
    length = min(LENGTH, _most_positions(model))
    batches = []
    for _ in range(INPUTS):
        ids = torch.randint(0, _vocabulary(model), (1, length), generator=generator)
        batches.append(_batch(model, ids if with_text else None, with_image=True))
    labels = tuple(f"seed {SEED}, input {number}" for number in range(1, INPUTS + 1))
    return Inputs(tuple(batches), labels, is_text=False)


def _batch(model: Any, ids: Any, *, with_image: bool) -> Batch:
    """The arguments that the class has parameters for."""
    import torch

    known = _parameters(model)
    batch: Batch = {}
    if ids is not None:
        batch["input_ids"] = ids
        batch["attention_mask"] = torch.ones_like(ids)
    main = model.main_input_name
    if main not in batch and main in _MAKERS:
        batch[main] = _MAKERS[main](model.config)
    if with_image and "pixel_values" in known and _wants_image(model, main):
        batch["pixel_values"] = _image(model.config)
    if getattr(model.config, "is_encoder_decoder", False) and "decoder_input_ids" in known:
        batch["decoder_input_ids"] = _decoder_ids(model.config)
    return {name: value for name, value in batch.items() if name in known}


def _wants_image(model: Any, main: str) -> bool:
    """Whether an image belongs to the main input: as for CLIP, which is no language model with eyes."""
    return main == "pixel_values" or not hasattr(model.config, "image_token_id")


def _image(config: Any) -> Any:
    vision = getattr(config, "vision_config", None) or getattr(config, "encoder", None) or config
    size = getattr(vision, "image_size", None) or getattr(config, "image_size", None) or 32
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return _normal(1, int(getattr(vision, "num_channels", 3)), int(height), int(width))


def _features(config: Any) -> Any:
    found = [getattr(config, name, None) for name in ("num_mel_bins", "input_feat_per_channel")]
    bins = next((one for one in found if one), 80)
    positions = getattr(config, "max_source_positions", None)
    if getattr(config, "model_type", "") == "whisper" and positions:
        return _normal(1, int(bins), 2 * int(positions))
    return _normal(1, FRAMES, int(bins))


def _wave(_config: Any) -> Any:
    return _normal(1, AUDIO)


def _normal(*shape: int) -> Any:
    import torch

    return torch.randn(shape, generator=torch.Generator().manual_seed(SEED))


_MAKERS = {"pixel_values": _image, "input_features": _features, "input_values": _wave}


def _decoder_ids(config: Any) -> Any:
    """A few ids from the seed behind the start of the decoder."""
    import torch

    decoder = getattr(config, "decoder", None) or config
    vocabulary = int(getattr(decoder, "vocab_size", None) or config.get_text_config().vocab_size)
    generator = torch.Generator().manual_seed(SEED)
    ids = torch.randint(0, vocabulary, (1, 8), generator=generator)
    ids[0, 0] = getattr(config, "decoder_start_token_id", None) or 0
    return ids


def _vocabulary(model: Any) -> int:
    text = model.config.get_text_config()
    return int(getattr(text, "vocab_size", None) or getattr(model.config, "vocab_size", None) or 2)


def _most_positions(model: Any) -> int:
    text = model.config.get_text_config()
    found = [getattr(text, name, None) for name in ("max_position_embeddings", "n_positions")]
    most = min((one for one in found if isinstance(one, int) and one > 0), default=LENGTH)
    return max(2, most - 2)  # two are taken in models that count from the padding id


def _parameters(model: Any) -> Mapping[str, Any]:
    return inspect.signature(model.forward).parameters


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else f"{line[:37]}..."
