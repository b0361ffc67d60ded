"""The store: the only importer of duckdb."""
