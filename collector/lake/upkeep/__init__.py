"""Upkeep: the jobs that keep a store small, fast and whole, one at a time, beside the collector's work."""
