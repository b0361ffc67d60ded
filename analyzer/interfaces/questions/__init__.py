"""What can be asked of a ledger: each question once, how it is read, and how it is written."""
