"""Services: what their owners declared of them, what of their reserve exceeds it, and which replicas nobody asks."""
