"""Batches decoded in a process of its own, while many come: the server's own has the store to write meanwhile."""
