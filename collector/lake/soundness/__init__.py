"""Whether the lake still has what was sealed into it, and how to go on without what it has lost."""
