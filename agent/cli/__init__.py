"""The commands that run on a GPU host."""
