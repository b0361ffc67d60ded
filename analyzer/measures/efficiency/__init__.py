"""How well a run used what it held: steps, goodput, MFU, scaling, checkpoints. Read from the ledger, never booked."""
