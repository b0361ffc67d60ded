"""Where runs of many nodes should be: a plan, what it saves, and how far from the best it can be at most."""
