"""A Hub on this machine that the real huggingface_hub client talks to. See `tests/hub/README.md`."""
