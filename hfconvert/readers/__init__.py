"""Readers: from files of every format to named lazy tensors."""
