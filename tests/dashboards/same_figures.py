"""Opens every page of a running server and holds each figure of it to its sheet, to the API, and to its command."""

import csv
import io
import json
import math
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import groupby
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import httpx
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import Route, compile_path

from tests.dashboards.page_figures import Page, Table, read_page
from tests.dashboards.serving import with_parts
from tests.dashboards.sheet_tables import LISTS, SENTENCES, TABLES, UNTOLD, Cell, Row, Rows, differs
from tests.dashboards.told_figures import Told, averages, figures, shares

# What is opened first. All else is led to; these a script puts together, or they are one of several of their kind.
FIRST = ("/", "/runs/slurm/alpha/1", "/parts/node?node=n1", "/health/rules")
STATES = ("view", "at", "format")  # words of an address that make another page; of others one will do
NO_FIGURES = {
    "/static/{name}": "files of the program",
    "/login": "a form",
    "/login/start": "leads to the provider of sign-in",
    "/login/callback": "leads back from it",
    "/mine": "leads to the runs of who asks",
    "/mail/stop/{token}": "a form",
    "/metrics": "for machines, of this moment",
    "/healthz": "for machines, of this moment",
    "/readyz": "for machines, of this moment",
    "/compare": "of two runs that somebody names; held to the command in test_runs.py",
    "/requests/{request_id}": "read anew each time; held to the API and the command in test_requests.py",
}
# Which reading of /v1 a command prints. A page whose footer names another has nothing that it is held to.
COMMANDS: dict[str, dict[str, str] | None] = {
    "runs": {"what": "runs"},
    "findings": {"what": "findings"},
    "report": {"what": "week"},
    "report --by node-group": {"what": "week", "by": "node-group"},
    "report traffic": {"what": "traffic"},
    "bill units": {"what": "units"},
    "bill budgets": {"what": "budgets"},
    "bill prices": {"what": "prices"},
    "recommendations savings": {"what": "savings"},
    "recommendations": {"what": "recommend"},
    "findings --unjudged": {"what": "findings", "unjudged": "true"},
    "admin doctor": None,  # of this moment
    "capacity request list": None,  # the JSON has all of it
}
# Commands that end in an id.
OF_ONE = {"report run": "run", "findings explain": "explain"}
# What tells figures of a page beside the JSON and the commands that its footer names.
WEEK, HOURS, GPUS = "/v1/read?what=week&width=300", "/v1/hours?limit=1000", "by=gpu&by=node&by=class&by=state&by=cause"
ALSO: dict[str, tuple[str, ...]] = {
    "/": ("/v1/notices", "/v1/costs?by=run", "/v1/recommendations", "/v1/read?what=findings&unjudged=true"),
    "/findings/{finding_id}": ("/v1/recommendations",),
    "/health": (WEEK,),
}
LEDGER = ("/", "/parts/{name}")  # what shows GPUs and runs one by one, and GPUs by the hour
OF_THIS_MOMENT = ("/health", "/v1/doctor", "/v1/capacity-profile")  # read anew for whoever asks
NOT_HELD = {"/health": r"agents seen in the last 5 minutes|end of the ledger, .* ago"}  # a constant; of this moment
INTERVAL = "90% interval"  # what it is called: no figure of the fleet
CHART_HOURS = 3
TIMELINE = "/timeline"
UNIT = r" \((ratio|W|B/s)\)$"  # of a column of its sheet


@dataclass
class Visit:
    """All that a server showed: pages, other answers as text, and which routes that were."""

    pages: dict[str, Page]
    texts: dict[str, str]
    routes: set[str]

    @property
    def shown(self) -> dict[str, object]:
        """Return what must be the same of a server that has kept nothing."""
        told = {address: (page.tables, page.words) for address, page in self.pages.items()}
        every: dict[str, object] = {**told, **self.texts}
        return {address: one for address, one in every.items() if not address.startswith(OF_THIS_MOMENT)}


def visit(client: httpx.Client, app: FastAPI, only: Iterable[str] | None = None) -> Visit:
    """Return what is shown at every kind of address that the pages lead to, or at these alone."""
    found, waiting = Visit({}, {}, set()), deque(only or FIRST)
    kinds: set[object] = set()
    routes = routes_of(app)
    while waiting:
        address = waiting.popleft().partition("#")[0]
        if address.startswith("/v1/"):
            continue  # what pages are held to
        route = route_of(routes, address)
        asked = urlsplit(address)
        words = sorted(word for word in asked.query.split("&") if word.startswith(STATES))
        kind = (asked.path if "{sheet}" in route or "{name}" in route else route, *words)
        if route in NO_FIGURES or kind in kinds:
            continue
        kinds.add(kind)
        found.routes.add(route)
        if "/parts/" in route and "node" not in address and "grid" not in address:
            continue  # read in its place on the page
        answer = client.get(address)
        assert answer.status_code == 200, (address, answer.text)
        if not answer.headers["content-type"].startswith("text/html"):
            found.texts[address] = answer.text
            continue
        waiting += () if only else read_page(answer.text).addresses
        page = found.pages[address] = read_page(with_parts(client, answer.text))
        found.texts |= {sheet: _get(client, sheet) for sheet in page.sheets if sheet not in found.texts}
    return found


def routes_of(app: FastAPI) -> list[str]:
    """Return the paths that can be opened, in the order in which they are tried."""
    return [
        one.path or ""
        for one in iter_route_contexts(app.routes)
        if isinstance(one.original_route, Route) and "GET" in (one.original_route.methods or ())
    ]


def route_of(routes: list[str], address: str) -> str:
    """Return the path of the route that answers an address, of those that can be opened."""
    asked = unquote(urlsplit(address).path)
    return next(path for path in routes if _pattern(path).match(asked))


@cache
def _pattern(path: str) -> re.Pattern[str]:
    return compile_path(path)[0]


def never_opened(app: FastAPI, visited: Visit) -> set[str]:
    """Return the paths of pages and sheets that no page led to."""
    return {path for path in routes_of(app) if not path.startswith("/v1/")} - visited.routes - NO_FIGURES.keys()


def rows_of(text: str) -> list[Row]:
    """Return a sheet by its columns."""
    return list(csv.DictReader(io.StringIO(text)))


def unlike_sheets(page: Page, texts: dict[str, str], zone: str) -> Iterator[str]:
    """Yield where a page prints something else than the sheets that it leads to."""
    for sheet in dict.fromkeys(page.sheets):
        path, rows = urlsplit(sheet).path, rows_of(texts[sheet])
        if path.endswith(TIMELINE):
            yield from unlike_timeline(json.loads(texts[path]), texts[sheet])
            continue
        assert path in TABLES or path in LISTS, f"nothing holds a page to {path}"
        tables = [table for table in page.tables if table.sheet == sheet]
        if path in TABLES and rows:
            yield from (f"{path}: {one}" for one in _unlike(tables, TABLES[path](rows, zone)))
        if path in LISTS:
            words = [*page.words, *(cell for table in tables for row in table.rows for cell in row)]
            yield from (f"{path}: {told[0]} {told}" for told in LISTS[path](rows) if not _said(words, told))


def unlike_timeline(figure: dict[str, Any], sheet: str) -> Iterator[str]:
    """Yield where the sheet of a run's timeline tells another number than its figure draws."""
    rows, drawn = rows_of(sheet), Drawn(figure["data"])
    for row in rows:
        at = round(datetime.fromisoformat(row.pop("from")).timestamp() * 10**6)
        told = drawn.at((at - figure["layout"]["meta"]["origin"]) / 10**6)
        if {re.sub(UNIT, "", name): float(text) if text else None for name, text in row.items()} != told:
            yield f"timeline: {row} is told, {told} drawn"
    if not rows:
        yield "the timeline's sheet is empty"


class Drawn:
    """The numbers that the figure of a timeline draws: of states from its bands, of signals from line and outline."""

    def __init__(self, traces: list[dict[str, Any]]) -> None:
        self._bands = [trace for trace in traces if "stackgroup" in trace]
        self._lines = [trace for trace in traces if "dx" in trace and trace["type"] == "scatter"]
        self._spreads = {trace["yaxis"]: _unfolded(trace) for trace in traces if trace.get("fill") == "toself"}

    def at(self, second: float) -> dict[str, float | None]:
        """Return each number at a moment by the name that the sheet gives it, without its unit."""
        place = max((n for n, x in enumerate(self._bands[0]["x"]) if x <= second), default=None)
        shares = {band["name"]: 0.0 if place is None else band["y"][place] for band in self._bands}
        is_none = not any(shares.values())  # a stretch has some state: of none there is no stretch
        told = {name: None if is_none else share for name, share in shares.items()}
        for line in self._lines:
            nth = math.floor((second - line["x0"]) / line["dx"])
            mean = line["y"][nth] if 0 <= nth < len(line["y"]) - 1 else None
            spread = self._spreads.get(line["yaxis"], {}).get(round(line["x0"] + nth * line["dx"], 3), (mean, mean))
            told |= zip((f"{line['name']} {how}" for how in ("mean", "least", "most")), (mean, *spread), strict=True)
        return told


def _unfolded(outline: dict[str, Any]) -> dict[float, tuple[float, float]]:
    """Return by where a point begins from where to where its spread goes: the outline's way there, and back."""
    found: dict[float, tuple[float, float]] = {}
    points = zip(outline["x"], outline["y"], strict=True)
    for is_gap, part in groupby(points, lambda point: point[0] is None):
        way = [*part]
        half = len(way) // 2
        if not is_gap:
            found |= {x: (low, high) for (x, high), (_, low) in zip(way[:half:2], way[: half - 1 : -2], strict=True)}
    return found


def _unlike(tables: list[Table], told: Rows) -> Iterator[str]:
    """Yield the rows that none of what is told prints as, and whether there are as many as there must be."""
    printed = [(table, row) for table in tables for row in table.rows[1:]]
    if len(printed) != len(told):
        yield f"{len(printed)} rows are printed, {len(told)} told"
    for table, row in printed:
        own = [each for each in told if each[0] == row[0]]
        if not any(len(each) == len(row) and not any(map(differs, row, each)) for each in own):
            yield f"{row} is printed, told is {own}"
        silent = {name for each in own for name, cell in zip(table.head, each, strict=False) if cell is None}
        if silent - UNTOLD.keys():
            yield f"no sheet tells {silent - UNTOLD.keys()}"


def _said(words: list[str], told: list[Cell]) -> bool:
    """Whether a page says these things, one right after the other."""
    places = (place for place, word in enumerate(words) if word == told[0])
    return any(
        len(words) >= place + len(told) and not any(map(differs, words[place : place + len(told)], told))
        for place in places
    )


class Sources:
    """What a server tells beside its pages; each document is asked for once."""

    def __init__(self, client: httpx.Client, app: FastAPI, zone: str) -> None:
        self._client, self._routes, self._zone = client, routes_of(app), zone
        self._known: dict[str, str] = {}

    def untold(self, address: str, page: Page, texts: dict[str, str]) -> Iterator[str]:
        """Yield the figures of a page, outside the tables of its sheets, that nobody else tells."""
        told, route = self._told(address, page, texts), route_of(self._routes, address)
        for words in page.words:
            if not re.fullmatch(NOT_HELD.get(route, ""), words):
                yield from (
                    f"{figure} in {words!r}"
                    for figure in figures(words.removeprefix(INTERVAL))
                    if not told.tells(figure)
                )
        for table in page.tables:
            if table.sheet is None or urlsplit(table.sheet).path.endswith(TIMELINE):
                for row in table.rows[1:]:
                    found = [figure for cell in row for figure in figures(cell)]
                    yield from (f"{figure} in {table.name} {row}" for figure in found if not told.tells(figure))

    def _told(self, address: str, page: Page, texts: dict[str, str]) -> Told:
        told, route = Told(), route_of(self._routes, address)
        for reading in _commands(page):
            told.add_text(self._get(f"/v1/read?{urlencode(reading | {'width': '300'})}"))
        documents = [one for one in page.addresses if one.startswith("/v1/") and "profile" not in one]
        for one in dict.fromkeys([*documents, *ALSO.get(route, ())]):
            text = self._get(one)
            if text.startswith("{"):
                told.add_json(text)
            else:
                told.add_text(text)
        for sheet in page.sheets:
            self._add_sheet(told, sheet, texts[sheet])
        if route in LEDGER:
            self._add_ledger(told)
        return told

    def _add_sheet(self, told: Told, sheet: str, text: str) -> None:
        path, rows = urlsplit(sheet).path, rows_of(text)
        cells = TABLES[path](rows, self._zone) if path in TABLES and rows else []
        cells += LISTS[path](rows) if path in LISTS else []
        told.add_text(" ".join(cell for row in cells for cell in row if isinstance(cell, str)))
        told.add_text(SENTENCES[path](rows) if path in SENTENCES else "")

    def _add_ledger(self, told: Told) -> None:
        """Add how the time of each GPU and run went, in the week and in its newest hour, and by the hour."""
        hours = json.loads(self._get(HOURS))
        start, newest = hours["period"]["start"], hours["items"][-1]["hour_iso"]
        for words, of in (
            (GPUS, "gpu_uuid"),
            (f"{GPUS}&since={newest}", "gpu_uuid"),
            (GPUS.replace("gpu&by=node", "run"), "run_id"),
        ):
            told.add_text(shares(json.loads(self._get(f"/v1/ledger?{words}&limit=1000"))["items"], of))
        by_hour = json.loads(self._get("/v1/ledger?by=hour&by=class&limit=1000"))["items"]
        told.add_numbers(averages(by_hour, start, CHART_HOURS))

    def _get(self, address: str) -> str:
        if address not in self._known:
            self._known[address] = _get(self._client, address)
        return self._known[address]


def _commands(page: Page) -> Iterator[dict[str, str]]:
    """Yield what of /v1/read the commands of a footer print."""
    for line in page.footer:
        if line.startswith("gpuledger "):
            for command in line.removeprefix("gpuledger ").split(", "):
                if (reading := _reading(command, page)) is not None:
                    yield reading


def _reading(command: str, page: Page) -> dict[str, str] | None:
    """Return what of /v1/read a command prints."""
    if command in COMMANDS:
        return COMMANDS[command]
    for beginning, what in OF_ONE.items():
        if command.startswith(beginning):
            (document,) = [one for one in page.addresses if one.startswith(f"/v1/read?what={what}&")]
            return {"what": what, "subject": dict(parse_qsl(urlsplit(document).query))["subject"]}
    raise AssertionError(f"a footer names {command!r}, which nothing here reads")


def _get(client: httpx.Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, (address, answer.text)
    return answer.text
