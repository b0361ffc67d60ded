"""What recommendations save when they are applied on the simulated site, beside what they said they would."""
