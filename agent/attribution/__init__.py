"""GPU and process to run, from this host alone."""
