"""What the collector tells of itself on /metrics."""
