"""What memory a model takes, which GPUs hold it at what price, and what similar runs really took."""
