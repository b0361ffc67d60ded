"""The ledger, read: week, run, findings; text, HTML and JSON."""
