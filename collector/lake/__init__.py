"""The lake: sealing into it, rolling up, upkeep, damage."""
