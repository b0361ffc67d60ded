"""What a Prometheus has: sent to us by remote write, or pulled from its history."""
