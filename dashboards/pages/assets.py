"""Scripts and styles, served by us: no page loads anything from another host."""

import gzip
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from analyzer.charts.scripts import DRAW, PLOTLY
from analyzer.text.templating import TEMPLATES

_STATIC = Path(__file__).parents[1] / "static"
_STYLES = ("page", "plotly", "fleet", "run", "money", "placement", "operations")
_YEAR_SECONDS = 31_536_000
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


@lru_cache(maxsize=8)
def asset(name: str) -> bytes | None:
    """Return a file's bytes; None where we serve no such file."""
    files = {
        "plotly.min.js": [PLOTLY],
        "page.js": [DRAW, _STATIC / "page.js"],
        "timeline.js": [_STATIC / "timeline.js"],
        "copy.js": [_STATIC / "copy.js"],
        "page.css": [
            *(TEMPLATES / f"{name}.css" for name in ("palette", "report")),
            *(_STATIC / f"{name}.css" for name in _STYLES),
        ],
        "icon.svg": [_STATIC / "icon.svg"],
    }
    if name not in files:
        return None
    return b"".join(path.read_bytes() for path in files[name])


@lru_cache(maxsize=8)
def _packed(name: str) -> bytes:
    """Return a file in gzip, which takes a third of a second of plotly: when it is first asked for."""
    return gzip.compress(asset(name) or b"", 6)


def assets() -> APIRouter:
    """Return the route of the files."""
    router = APIRouter()

    @router.get("/static/{name}")
    def file(name: str, request: Request) -> Response:
        content = asset(name)
        if content is None:
            return PlainTextResponse(f"there is no file {name}\n", status_code=404)
        zipped = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"Cache-Control": f"public, max-age={_YEAR_SECONDS if 'v' in request.query_params else 300}"}
        headers |= {"Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
        if zipped:
            headers["Content-Encoding"] = "gzip"
        kind = _TYPES[Path(name).suffix]
        return Response(_packed(name) if zipped else content, media_type=kind, headers=headers)

    return router
