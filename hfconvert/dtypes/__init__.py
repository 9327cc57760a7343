"""Casts between floating types, a block at a time and without torch, and which tensors are cast to what."""
