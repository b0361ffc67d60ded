"""The ledger of what other people recorded, against what they published of it."""
