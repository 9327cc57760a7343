"""Adapters in any naming as one description, and the nodes that merge them into their base."""
