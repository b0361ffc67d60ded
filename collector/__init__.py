"""Where batches arrive, are kept, and are read from."""
