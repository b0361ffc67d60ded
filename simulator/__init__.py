"""A fleet that does not exist, with labelled workloads: the demo and the benches run on it (extra `demo`: numpy)."""
