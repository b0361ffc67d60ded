"""How right the ledger is, by labels that it never sees."""
