"""What the ledger shows that somebody may act on: losses of GPU time, and what claims no second."""
