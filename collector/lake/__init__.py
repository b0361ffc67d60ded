"""The lake: sealing into it, rolling up, maintenance, damage."""
