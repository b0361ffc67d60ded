"""From what is lost to what to move."""
