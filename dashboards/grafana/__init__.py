"""Grafana's dashboards, as code; the JSON beside it is what the code makes."""
