"""`gpuledger agent`: the parts of the daemon put together, its life, and what it tells of itself."""
