"""Convert model checkpoints to safetensors, prove the result, publish it."""

__version__ = "0.1.0"
