"""Whether the table of causes and witnesses holds on runs that it was not fitted to, and what its shares mean."""
