"""From a body's bytes to a batch that may be trusted, here or in a process of its own while many come."""
