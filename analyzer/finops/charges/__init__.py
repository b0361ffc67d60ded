"""What teams are charged for GPU time, beside what it costs; the difference is the platform's own line."""
