"""The `logits` and `effect` checks: what the model computes, from the source and from what was written."""
