"""The templates of reports, loaded once: everything is escaped, and nothing that is missing passes for empty."""

from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analyzer.charts.scripts import policy, scripts
from analyzer.text.words import owner_word

TEMPLATES = Path(__file__).parent / "templates"


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the template environment; everything is escaped unless a template says otherwise, and none does."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"policy": policy, "scripts": scripts}
    made.filters["owner"] = owner_word
    return made
