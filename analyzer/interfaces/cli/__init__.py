"""The commands that read the ledger, decide and bill."""
