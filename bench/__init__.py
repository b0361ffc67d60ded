"""Measurements: scripts, and their raw numbers in results/."""
