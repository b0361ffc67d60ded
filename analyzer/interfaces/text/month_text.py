"""The report of a month as text: the week's sections over the month, then targets, then budgets."""

from analyzer.finops.budgets.text import budget_lines
from analyzer.finops.targets.text import target_lines
from analyzer.interfaces.text.week_text import week_sections
from analyzer.reports.month import MonthPage
from analyzer.text.layout import Paper


def month_text(report: MonthPage, paper: Paper, top: int | None = None) -> str:
    """Return the month as text; its budgets' columns sum to the bill of the table."""
    sections = [
        *week_sections(report.week, paper, top),
        target_lines(report.targets, paper),
        budget_lines(report.budgets, paper, top),
    ]
    body = [line for section in sections if section for line in (*section, "")]
    return paper.page([*body, "next: gpuledger report units      gpuledger report portfolio"])
