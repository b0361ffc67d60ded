"""Samples, allocations and ownership become the ledger, its findings, its prices and its reports."""
