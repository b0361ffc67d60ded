"""Routes of /v1 that need the server itself."""
