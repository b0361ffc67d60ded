"""Take a person's name out of everything that is stored, and put a pseudonym in its place."""
