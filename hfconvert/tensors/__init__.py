"""Lazy tensors: what a tensor is, where its bytes lie, and how a part of it is made.

Nothing here knows a checkpoint format or a recipe, and nothing imports torch.
"""
