"""Run the analyzer's SQL files: statements split by blank lines, each given the parameters that it names."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.queries.booked import with_booked
from analyzer.queries.placed import with_placed

if TYPE_CHECKING:
    from collector.store.session import Session

Texts = tuple[tuple[str, str], ...]  # name and SQL, as a key of the cache
ROOMS = Path(__file__).parent.parent
PARAMETER = re.compile(r"\$([a-z_]+)")


@cache
def statements(file: str, texts: Texts = ()) -> tuple[str, ...]:
    """Return the statements of a file, without comments and semicolons; room/name.sql is analyzer/room/sql/name.sql.

    {booked ledger} in them is the ledger with whose its rows are (booked.py), {placed l} joins
    where the hosts of `l` stood (placed.py); `texts` are put where each stands by its {name}.
    """
    room, _, name = file.partition("/")
    text = (ROOMS / room / "sql" / name).read_text()
    for placeholder, part in texts:
        text = text.replace(f"{{{placeholder}}}", part)
    text = with_placed(with_booked(text))
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return tuple(part.strip().rstrip(";") for part in "\n".join(lines).split(";\n") if part.strip())


def run(session: "Session", file: str, **parameters: object) -> None:
    """Run every statement of one file in order. Raises as run_with()."""
    run_with(session, file, (), parameters)


def run_with(session: "Session", file: str, texts: Texts, parameters: Mapping[str, object]) -> None:
    """Run every statement of one file in order, with the texts that statements() puts into it.

    A parameter that a statement names and nobody gives is our own mistake and raises KeyError.
    """
    for statement in statements(file, texts):
        names = set(PARAMETER.findall(statement))
        session.execute(statement, {name: parameters[name] for name in names})
