"""Which stage of the pipeline a run belongs to: what it was called first, what it did second."""
