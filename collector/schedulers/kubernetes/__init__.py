"""Kubernetes: what the API server says of pods, their owners, nodes and queues, as rows of the contract."""
