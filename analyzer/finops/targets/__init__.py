"""How a fleet stands against the figures that it should reach, each with its source and the date that it was read."""
