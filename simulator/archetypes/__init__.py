"""What runs on the fleet: one file a kind of work, each saying what it imitates and on what numbers it stands."""
