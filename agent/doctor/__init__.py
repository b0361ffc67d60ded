"""What this host can measure, what to do about the rest, what the agent costs, and what leaves the host."""
