"""The demo: a fleet that does not exist, through the real pipeline."""
