"""Hostile input for every door of the collector, by the hundred thousand, and a look at what got in."""
