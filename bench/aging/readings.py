"""Every reading that the product has of a period: the commands' (`QUESTIONS`) and the API's (its document), as bytes.

Both lists are the product's own, so that whoever adds a reading has it aged. What is left out is named here with why.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.testclient import TestClient

from analyzer.errors import AnalyzerError
from analyzer.interfaces.api.routes import document
from analyzer.interfaces.questions.registry import QUESTIONS, answer, having
from analyzer.reports.reader import Reader
from analyzer.reports.request import Format, Request
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from dashboards.server.app import ServerConfig, create_server

if TYPE_CHECKING:
    from collector.store.database import Store
    from collector.store.session import Session

# What tells of this moment or of this process, and of no period.
OF_NOW: Mapping[str, str] = {
    "top": "the newest hour, from samples of the last minutes",
    "prices-check": "how old a price is today",
    "/healthz": "this process",
    "/readyz": "this process",
    "/metrics": "this process, and the newest hour",
    "/v1/doctor": "this store as it is now",
    "/v1/runs/{run_id}/series": "curves: of samples, then of minutes, then of hours, each told beside it",
}
MONTHLY = ("month", "budgets")
STANDING = ("savings", "demand", "prices", "nodes", "history")  # of no period that could be named
FORMS: tuple[Format, ...] = ("text", "json")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a site: its period as a week and a month, and the subjects of readings that need one."""

    week: str
    month: str
    now_us: int
    runs: tuple[str, ...]
    names: tuple[str, ...]
    findings: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    def only(self, *, runs: Sequence[str], findings: Sequence[str], advice: Sequence[str]) -> "Asked":
        """Return the same of some subjects."""
        return replace(self, runs=tuple(runs), findings=tuple(findings), advice=tuple(advice))


def requests(asked: Asked, whats: Sequence[str] = tuple(QUESTIONS)) -> Iterator[Request]:
    """Yield the readings of the commands, each with every subject and in every form that it has."""
    subjects: Mapping[str, Sequence[str | None]] = {
        "run": asked.runs,
        "explain": asked.findings,
        "show": asked.advice,
        "compare": asked.runs[:1],
        "history": asked.names[:1],
    }
    for what in whats:
        if what in OF_NOW:
            continue
        since = None if what in STANDING else asked.month if what in MONTHLY else asked.week
        forms = (*FORMS, *(form for form in ("csv",) if what in having(form)))
        for subject in subjects.get(what, (None,)):
            one = Request(what, subject, since if what not in ("run", "compare") else None, everything=True)
            if what == "compare":
                one = replace(one, other=asked.runs[-1])
            for form in forms:
                formed = replace(one, format=form, traffic=what == "run")  # type: ignore[arg-type]  # one of them
                yield formed
                if what == "findings":
                    yield replace(formed, unjudged=True)


def commands(
    session: "Session", settings: Settings, asked: Asked, whats: Sequence[str] = tuple(QUESTIONS)
) -> dict[str, str]:
    """Return what the commands answer; what several of them are made of is made once."""
    found = {}
    reader = Reader(session, settings, clock=lambda: asked.now_us)
    for one in requests(asked, whats):
        try:
            text = answer(reader, one)
        except AnalyzerError as error:
            text = f"refused: {error}"
        found[name_of(one)] = text
    return found


def name_of(one: Request) -> str:
    """Return what a reading is called here."""
    named = (one.what, "unjudged" if one.unjudged else None, one.subject, one.format)
    return " ".join(word for word in named if word)


def addresses(store: "Store", settings: Settings, asked: Asked) -> dict[str, str]:
    """Return what the API answers at each of its addresses."""
    path = store.path or Path("none.duckdb")
    config = ServerConfig(CollectorConfig(store=path, listen="127.0.0.1:0"), settings, None, collects=False)
    app = create_server(config, store)
    client = TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1))
    ids: Mapping[str, Sequence[str]] = {
        "run_id": asked.runs,
        "finding_id": asked.findings,
        "advice_id": asked.advice,
        "request_id": (),  # of requests for capacity there are none, which their list tells
    }
    found = {}
    for path_, item in document(app)["paths"].items():
        if "get" not in item or path_ in OF_NOW or path_ == "/v1/read":  # which answers as the commands do
            continue
        parameters = {one["name"]: one for one in item["get"].get("parameters", [])}
        query = {"since": asked.week} if "since" in parameters else {}
        if "name" in parameters and parameters["name"]["required"]:
            query["name"] = asked.names[0]
        named = [name for name in ids if f"{{{name}}}" in path_]
        for subject in ids[named[0]] if named else [""]:
            address = path_.replace(f"{{{named[0]}}}", subject) if named else path_
            answer = client.get(address, params=query)
            found[f"GET {address}"] = f"{answer.status_code} {answer.text}"
    return found
