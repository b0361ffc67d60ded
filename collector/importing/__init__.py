"""Bring any telemetry to the ledger: files of the contract's tables, with any subset of their columns."""
