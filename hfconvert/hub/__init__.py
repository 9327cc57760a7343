"""The only network: repositories on the Hub, pinned to a commit, read whole or by ranges.

Commands that stay on this machine never import it: huggingface_hub takes a third of a second to load.
"""
