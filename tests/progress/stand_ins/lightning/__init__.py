"""Stands in for Lightning."""
