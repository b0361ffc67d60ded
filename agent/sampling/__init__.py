"""The beat: every source read in time, its readings stamped with the interval they hold for."""
