"""Amounts: work done, energy drawn and bytes moved, booked by hour beside the ledger; they outlive samples."""
