"""The analyzer's commands: those that make and check the ledger, and those that read it."""

from analyzer.commands import analyze_command as analyze
from analyzer.commands import doctor
from analyzer.report.cli import explain, findings, recommend, report, show

__all__ = ["analyze", "doctor", "explain", "findings", "recommend", "report", "show"]
