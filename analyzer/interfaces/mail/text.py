"""The e-mail as plain text: the same words as its HTML, at most 76 columns but for lines to paste and links."""

from analyzer.interfaces.mail.content import Action, Content, Footer, Section, Table
from analyzer.text.layout import TextLayout

_WIDTH = 78  # of the paper, whose text is two columns narrower
_KLASS, _AMOUNT, _PERCENT = 12, 11, 8


def mail_text(content: Content, footer: Footer) -> str:
    """Return the text part."""
    layout = TextLayout(_WIDTH)
    parts = [
        [content.title.upper() if content.team is None else content.title],
        _figures(content),
        layout.wrap(content.answer, ""),
        _went(content, layout),
        _actions(content, layout),
        *(_section(section, layout) for section in content.sections),
        _foot(content, footer, layout),
    ]
    return layout.page([line for part in parts if part for line in (*part, "")][:-1])


def _figures(content: Content) -> list[str]:
    columns = [(figure.value, figure.name, figure.change, figure.usual) for figure in content.figures]
    width = max(17, *(len(word) + 2 for column in columns[:2] for word in column))
    rows = [row for row in zip(*columns, strict=True) if any(row)]
    return ["   " + "".join(word.ljust(width) for word in row) for row in rows]


def _went(content: Content, layout: TextLayout) -> list[str]:
    label = layout.width - 4 - _KLASS - _AMOUNT - _PERCENT
    head = "WHERE THE MONEY WENT" if content.went_head != "GPU-hours" else "WHERE THE TIME WENT"
    found = [head.ljust(2 + _KLASS + label) + f"{content.went_head:>{_AMOUNT}}{'%':>{_PERCENT}}"]
    for line in content.went:
        name = layout.cut(line.label, label - 1)
        found.append(f"  {line.klass:<{_KLASS}}{name:<{label}}{line.amount:>{_AMOUNT}}{line.percent:>{_PERCENT}}")
    return found if content.went else []


def _actions(content: Content, layout: TextLayout) -> list[str]:
    found = content.actions
    if found is None:
        return []
    width = layout.width - 2
    lines = [found.head.upper() + f"{found.unit:>{width - len(found.head)}}"]
    for number, action in enumerate(found.rows, 1):
        lines += _action(number, action, layout)
    if not found.together:
        return lines
    return [*lines, "  together" + f"{found.together:>{width - 10}}", *layout.wrap(found.bill)]


def _action(number: int, action: Action, layout: TextLayout) -> list[str]:
    narrow = TextLayout(layout.width - len(action.saves) - 1)
    title = narrow.wrap(f"{action.owner}  {action.title} ({action.id})", f"  {number} ", " " * 4)
    title[0] += action.saves.rjust(max(1, layout.width - 2 - len(title[0])))
    return [
        *title,
        *layout.wrap(action.evidence, " " * 4),
        *(f"      {line}" for line in action.how),
        *([f"    {action.link}"] if action.link else []),
    ]


def _section(section: Section, layout: TextLayout) -> list[str]:
    found = [section.title.upper()]
    if section.table is not None and section.table.rows:
        rows = _table(section.table, layout)
        found = [found[0].ljust(len(rows[0]) - len(rows[0].lstrip())) + rows[0].lstrip(), *rows[1:]]
    for paragraph in section.paragraphs:
        found += layout.wrap(paragraph)
    return found


def _table(table: Table, layout: TextLayout) -> list[str]:
    columns = list(zip(table.head, *table.rows, strict=True))
    widths = [max(map(len, column)) + 2 for column in columns[1:]]
    first = max(16, layout.width - 4 - sum(widths))
    return [
        f"  {layout.cut(row[0], first):<{first}}"
        + "".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths, strict=True))
        for row in (table.head, *table.rows)
    ]


def _foot(content: Content, footer: Footer, layout: TextLayout) -> list[str]:
    found = layout.wrap(content.files_text, "") if content.files else []
    found += [f"The same figures: {content.page}"] if content.page else []
    found += layout.wrap(footer.why, "")
    if footer.stop_url:
        found.append(f"Stop: {footer.stop_url}")
    if footer.stop_address:
        found.append(f"{'or' if footer.stop_url else 'To stop:'} write to {footer.stop_address}")
    return found
