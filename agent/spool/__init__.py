"""A bounded queue of batches on disk: what was not yet delivered, and what was but is not yet safe at the collector."""
