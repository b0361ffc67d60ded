"""What became of each recommendation: proposed, accepted or rejected, applied, verified."""
