"""Collector, analysis and pages in one process."""
