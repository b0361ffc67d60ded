"""The SQL files of all rooms, what they share, and readings of the ledger that every room asks."""
