"""What a unit of work costs, a thousand requests or a billion tokens, over time; and when that changed, and why."""
