"""Slurm: what sacct, squeue and scontrol say, of any release since 21.08, as rows of the contract."""
