"""FOCUS: the ledger as a bill in the FinOps Foundation's format, and the bills of others in it."""
