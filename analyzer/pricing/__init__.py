"""The price book and rates."""
