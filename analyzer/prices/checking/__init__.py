"""What is wrong with the prices: by themselves, one after another, and against the fleet and its ledger."""
