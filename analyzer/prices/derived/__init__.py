"""Prices that are made of other figures: a contract with a payment in advance, GPUs that are owned, a spot market."""
