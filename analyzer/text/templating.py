"""Templates, and the scripts of the documents that they make.

Everything is escaped unless a template says otherwise, and none does; what is missing never passes for empty. A
document has the scripts that draw its figures inside, the part of plotly.js that ours need and draw.js: one file that
opens anywhere without a network. Its policy lets nothing run but these two, by their hashes, and nothing be loaded.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from analyzer.text.words import owner_word, plain

_SHORT = 14  # of a longer name a table keeps room for so much in a line
NAME_SHOWN = 60  # characters of a name on a page; its title has five times as many
TEMPLATES = Path(__file__).parent / "templates"
PLOTLY, DRAW = (Path(__file__).parents[1] / "charts" / name for name in ("plotly.min.js", "draw.js"))


@lru_cache(maxsize=1)
def palette() -> Mapping[str, str]:
    """Return the colours of light paper by their names: of pages, figures, mails and Grafana."""
    light = (TEMPLATES / "palette.css").read_text("utf-8").partition("@media")[0]
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", light))


def environment_of(*folders: Path) -> Environment:
    """Return the environment of the templates in these folders."""
    made = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["name"] = name_mark
    return made


def name_mark(name: str, instead: str = "") -> Markup:
    """Return somebody's name as every page has it; `instead` is what is shown where it is blank.

    It is isolated, so that one from right to left turns round nothing beside it; broken where there is no room; cut
    with a mark where it is long, and whole in its title then.
    """
    whole = plain(name, NAME_SHOWN * 5).strip() or plain(instead)
    if len(whole) <= _SHORT:
        return Markup('<bdi class="name">{}</bdi>').format(whole)
    if len(whole) <= NAME_SHOWN:
        return Markup('<bdi class="name long">{}</bdi>').format(whole)
    return Markup('<bdi class="name long" title="{}">{}…</bdi>').format(whole, whole[: NAME_SHOWN - 1].rstrip())


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the environment of the templates of reports, made once."""
    made = environment_of(TEMPLATES)
    made.globals |= {"policy": policy, "scripts": scripts}
    made.filters["owner"] = owner_word
    return made


@lru_cache(maxsize=1)
def scripts() -> Markup:
    """Return the scripts of a document; both are ours, and neither has an end of a script within it."""
    return Markup("\n").join(Markup("<script>{}</script>").format(Markup(text)) for text in _texts())  # noqa: S704


@lru_cache(maxsize=2)
def policy(ours: str = "") -> str:
    """Return what a browser may load and run of a document; `ours` is where else a server's pages take theirs from."""
    digests = (hashlib.sha256(text.encode()).digest() for text in _texts())
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    ours = f"{ours} " if ours else ""
    return (
        f"default-src 'none'; script-src {ours}{hashes}; style-src {ours}'unsafe-inline'; img-src {ours}data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _texts() -> tuple[str, ...]:
    return tuple(path.read_text("utf-8") for path in (PLOTLY, DRAW))
