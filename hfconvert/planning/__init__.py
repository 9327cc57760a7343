"""The plan: what is read, what is decided, and every output file with the place of every tensor."""
