"""The analysis beside the server."""
