"""Train the model of the quickstart: a byte-level llama of 431,000 parameters.

    pip install 'hfconvert[models]'
    python configs/quickstart/train.py [--steps 400] [--into configs/quickstart/model]

It takes about two minutes on two CPU cores and no network. The text lies in `text/`; the seed is fixed, so
the same machine with the same torch and thread count writes the same bytes again. The weights are stored as
transformers 4 stored them: pickled shards with an index, the tied head beside the input embedding.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HERE = Path(__file__).resolve().parent
TRAINING = ("song-of-solomon", "ruth", "lamentations", "ecclesiastes", "esther")
HELD_OUT = "jonah"
END = "<|endoftext|>"

CONTEXT = 128
BATCH = 32
PEAK_LEARNING_RATE = 3e-3
SHARD_BYTES = 700_000


def main() -> None:
    """Train, print the losses, and write the model folder."""
    arguments = _arguments()
    torch.manual_seed(1611)
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(mode=True)
    tokenizer = build_tokenizer()
    texts = Texts.read(tokenizer)
    model = build_model(len(tokenizer))
    print(f"{model.num_parameters():,} parameters, {len(texts.training):,} tokens of text")
    train(model, texts, steps=arguments.steps)
    print(summary(model, texts))
    print("sample:", repr(sample(model, tokenizer, "And it came to pass")))
    write(model, tokenizer, arguments.into)


@dataclass(frozen=True, slots=True)
class Texts:
    """Token ids to learn from, and those held out."""

    training: torch.Tensor
    held_out: torch.Tensor

    @classmethod
    def read(cls, tokenizer: PreTrainedTokenizerFast) -> Texts:
        """Each book ends with the end-of-text token."""
        training = "".join(_book(name) + END for name in TRAINING)
        return cls(
            training=torch.tensor(tokenizer.encode(training, verbose=False)),
            held_out=torch.tensor(tokenizer.encode(_book(HELD_OUT) + END, verbose=False)),
        )


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, in the printable alphabet of GPT-2, and an end-of-text token: 257 in all."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([END])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=END,
        eos_token=END,
        pad_token=END,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def build_model(vocabulary: int) -> LlamaForCausalLM:
    """Four layers of width 96, two key-value heads for four query heads, tied embeddings, fp32."""
    end = vocabulary - 1
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        dtype="float32",
    )
    return LlamaForCausalLM(config)


def train(model: LlamaForCausalLM, texts: Texts, *, steps: int) -> None:
    """AdamW on random windows, warmed up over 50 steps, then down to a tenth along a cosine."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=PEAK_LEARNING_RATE, betas=(0.9, 0.99), weight_decay=0.1
    )
    generator = torch.Generator().manual_seed(1769)
    model.train()
    for step, batch in enumerate(_batches(texts.training, steps, generator)):
        for group in optimizer.param_groups:
            group["lr"] = PEAK_LEARNING_RATE * _schedule(step, steps)
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0 or step == steps - 1:
            held_out = mean_loss(model, texts.held_out)
            print(f"step {step:5}  loss {loss.item():.3f}  held out {held_out:.3f}", flush=True)


@torch.no_grad()
def mean_loss(model: LlamaForCausalLM, tokens: torch.Tensor) -> float:
    """Mean negative log-likelihood a token, in nats, over windows that do not overlap."""
    was_training = model.training
    model.eval()
    total, count = 0.0, 0
    for window in tokens.split(CONTEXT):
        if len(window) > 1:
            loss = model(input_ids=window[None], labels=window[None]).loss.item()
            total += loss * (len(window) - 1)
            count += len(window) - 1
    model.train(was_training)
    return total / count


def summary(model: LlamaForCausalLM, texts: Texts) -> str:
    """The losses beside what chance and letter frequencies alone would give."""
    counts = Counter(texts.training.tolist())
    frequencies = -sum(
        math.log((counts[token] + 1) / (len(texts.training) + 257))
        for token in texts.held_out.tolist()
    ) / len(texts.held_out)
    return (
        "nats a byte: "
        f"training text {mean_loss(model, texts.training):.3f}, "
        f"held out {mean_loss(model, texts.held_out):.3f}, "
        f"letter frequencies {frequencies:.3f}, chance {math.log(model.config.vocab_size):.3f}"
    )


@torch.no_grad()
def sample(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, prompt: str) -> str:
    """The most likely continuation, to `CONTEXT` tokens in all."""
    model.eval()
    ids = torch.tensor([tokenizer.encode(prompt)])
    tokens = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_length=CONTEXT
    )
    return str(tokenizer.decode(tokens[0]))


def write(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """The model folder, but for its card: configuration, tokenizer, pickled shards and their index."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("pytorch_model*"):
        stale.unlink()
    model.config.architectures = ["LlamaForCausalLM"]
    model.config.save_pretrained(folder)
    end = model.config.eos_token_id
    GenerationConfig(
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        do_sample=True,
        temperature=0.7,
        max_length=CONTEXT,
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _name_tokenizer_class(folder / "tokenizer_config.json")
    _write_shards(model.state_dict(), folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the model of the quickstart.")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--into", type=Path, default=HERE / "model")
    return parser.parse_args()


def _book(name: str) -> str:
    return (HERE / "text" / f"{name}.txt").read_text(encoding="utf-8")


def _batches(
    tokens: torch.Tensor, steps: int, generator: torch.Generator
) -> Iterator[torch.Tensor]:
    windows = tokens.unfold(0, CONTEXT, 1)
    for _ in range(steps):
        yield windows[torch.randint(len(windows), (BATCH,), generator=generator)]


def _schedule(step: int, steps: int, warmup: int = 50) -> float:
    if step < warmup:
        return (step + 1) / warmup
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def _name_tokenizer_class(file: Path) -> None:
    """The name that transformers 4 knows and 5 still reads; 5 writes `TokenizersBackend`."""
    config = json.loads(file.read_text(encoding="utf-8"))
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _write_shards(state: dict[str, torch.Tensor], folder: Path) -> None:
    """Tensors over one storage go to one shard and count once, as in transformers 4."""
    shards: list[dict[str, torch.Tensor]] = [{}]
    home: dict[int, dict[str, torch.Tensor]] = {}
    room = SHARD_BYTES
    for name, tensor in state.items():
        shard = home.get(tensor.untyped_storage().data_ptr())
        if shard is None:
            if tensor.nbytes > room and shards[-1]:
                shards.append({})
                room = SHARD_BYTES
            shard = home[tensor.untyped_storage().data_ptr()] = shards[-1]
            room -= tensor.nbytes
        shard[name] = tensor
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        file = f"pytorch_model-{number:05}-of-{len(shards):05}.bin"
        torch.save(shard, folder / file)
        weight_map.update(dict.fromkeys(shard, file))
    total = sum({t.untyped_storage().data_ptr(): t.nbytes for t in state.values()}.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    text = json.dumps(index, indent=2, sort_keys=True) + "\n"
    (folder / "pytorch_model.bin.index.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
