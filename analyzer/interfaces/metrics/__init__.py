"""The fleet on /metrics: cost, GPUs, findings and hours, read from the ledger beside every request."""
