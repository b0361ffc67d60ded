"""The collector as a server: requests, health, metrics."""
