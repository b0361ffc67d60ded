"""The fleet as it is now: who holds what, what it does, and what an hour of it costs."""
