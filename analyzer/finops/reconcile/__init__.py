"""The ledger against an invoice: what differs, where, and why as far as it can be told."""
