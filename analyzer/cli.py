"""The analyzer's commands; the reading ones live beside the reports."""

from analyzer.report.cli import explain, findings, recommend, report, show

__all__ = ["explain", "findings", "recommend", "report", "show"]
