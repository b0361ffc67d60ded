"""What costs besides GPUs: energy and carbon, storage, checkpoints, hosts. Beside the ledger, smeared over nobody."""
