"""No capacity request without a profile: what the GPUs that a team has really do, and whether more would help."""
