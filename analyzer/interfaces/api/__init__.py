"""The API /v1: typed readings of the ledger over HTTP, and the only place of the analyzer that imports fastapi."""
