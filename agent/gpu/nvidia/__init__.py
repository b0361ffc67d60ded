"""Read NVIDIA GPUs. Nothing outside this package imports pynvml."""
