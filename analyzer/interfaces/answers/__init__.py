"""The answers of reading commands, as title, text and data."""
