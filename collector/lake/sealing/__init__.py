"""From the hot file into the lake: every few minutes, exactly once, whatever dies meanwhile."""
