"""Somebody's conversion against its source: both sides opened, tensors paired, everything compared."""
