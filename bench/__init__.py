"""Measurements: scripts, and their raw numbers in results/ (written with --record alone)."""
