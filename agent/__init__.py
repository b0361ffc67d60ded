"""All that runs on a GPU host, and nothing else."""
