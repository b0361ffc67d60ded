"""The host's /metrics: what was last read, under our names and under those of dcgm-exporter."""
