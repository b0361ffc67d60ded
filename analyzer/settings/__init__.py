"""What people write for the analyzer: its settings, and TOML, YAML and CSV that are read strictly and within bounds."""
