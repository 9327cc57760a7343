"""Names: patterns over them, the steps of a key map, and the proof that no tensor was lost.

Steps are name algebra plus a composition of lazy tensors; nothing here reads a value.
"""
