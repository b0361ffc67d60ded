"""Which workloads earn their compute, which want a fix or a smaller place, and which nobody seems to need."""
