"""What somebody should look at although no second of the ledger is booked to it: one file a rule."""
