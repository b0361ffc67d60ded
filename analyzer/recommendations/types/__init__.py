"""Which changes are proposed, one subject a file."""
