"""Templates: everything is escaped unless one says otherwise, and none does; what is missing never passes for empty."""

from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analyzer.charts.scripts import policy, scripts
from analyzer.text.words import owner_word

TEMPLATES = Path(__file__).parent / "templates"


def environment_of(*folders: Path) -> Environment:
    """Return the environment of the templates in these folders."""
    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the environment of the templates of reports, made once."""
    made = environment_of(TEMPLATES)
    made.globals |= {"policy": policy, "scripts": scripts}
    made.filters["owner"] = owner_word
    return made
