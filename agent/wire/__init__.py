"""The contract: every table and column that agents send, and how they travel."""
