"""Examine a store: the ledger's invariants, and whether what brings and keeps the samples is well."""

from analyzer.interfaces.doctor.invariants import Check, as_json, examine

__all__ = ["Check", "as_json", "examine"]
