"""One process for one site."""
