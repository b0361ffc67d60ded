"""Examine a store: the ledger's invariants, and whether what brings and keeps the samples is well."""
