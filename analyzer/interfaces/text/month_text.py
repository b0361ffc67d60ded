"""The report of a month as text: the week's sections over the month, then targets, then budgets."""

from analyzer.finops.budgets.text import budget_lines
from analyzer.finops.targets import target_lines
from analyzer.interfaces.text.week_text import week_sections
from analyzer.reports.month import MonthPage
from analyzer.text.layout import TextLayout


def month_text(report: MonthPage, layout: TextLayout, top: int | None = None) -> str:
    """Return the month as text; its budgets' columns sum to the bill of the table."""
    sections = [
        *week_sections(report.week, layout, top),
        target_lines(report.targets, layout),
        budget_lines(report.budgets, layout, top),
    ]
    body = [line for section in sections if section for line in (*section, "")]
    return layout.page([*body, "next: gpuledger bill units      gpuledger capacity portfolio"])
