"""Every recommendation that a report, a page, a mail or a message offers by its id is known to all who ask by it."""

import asyncio
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from mcp.client import Client

from analyzer.errors import LedgerError
from analyzer.interfaces.alarms.alarm import present
from analyzer.interfaces.alarms.settings import AlarmSettings
from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mcp.server import create_server
from analyzer.interfaces.mcp.site import Query
from analyzer.interfaces.questions.registry import answer
from analyzer.period import Calendar, Period
from analyzer.queries.generation import ByGeneration, Generations
from analyzer.recommendations.lifecycle.lifecycle_tables import words
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from tests.analyzer.interfaces.api_sites import Site, settings, site
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet
from tests.analyzer.reports.test_run_advice import two_weeks
from tests.collector.access.conftest import bearer

ID = re.compile(r"(?<![\w-])r-[a-hjkmnp-tv-z2-9]{5,13}\b")
NOW = MONDAY + 16 * DAY
WEEKS = (Calendar().week_of(MONDAY), Calendar().week_of(MONDAY + 8 * DAY))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Reader]]:
    """A server on a week in which much is lost and one in which a run works; and a reader of its store."""
    folder = tmp_path_factory.mktemp("offered")
    with site(folder, two_weeks(), NOW) as here, here.fleet.store.session() as session:
        chosen = settings(folder)
        kept = ByGeneration(Generations(chosen, lambda: NOW))  # as a server's; each word that is said makes it another
        yield here, Reader(session, chosen, kept=kept, clock=lambda: NOW)


def of_commands(reader: Reader) -> Iterator[tuple[str, str]]:
    """Yield what the commands print, and what is sent."""
    for week in WEEKS:
        for what in ("week", "recommend"):
            yield (
                f"{what} {week.label}",
                answer(reader, Request(what, since=week.label, format="json", everything=True)),
            )
        found = reader.findings(week)
        for one in found[:3]:
            yield f"explain {one.id}", answer(reader, Request("explain", one.id, since=week.label))
        yield f"mail {week.label}", repr(compose(reader.week(week)))
    for (run_id,) in reader.session.rows("SELECT run_id FROM runs ORDER BY 1"):
        yield f"run {run_id}", answer(reader, Request("run", run_id))
    yield "alarms", repr(present(reader, AlarmSettings()))


def of_server(here: Site, findings: list[tuple[str, Period]]) -> Iterator[tuple[str, str]]:
    """Yield what its pages and its API say, the assistant's answers among it."""
    paths = [path.format(week.label) for week in WEEKS for path in ("/?week={}", "/recommendations?week={}")]
    paths += ["/v1/recommendations?everything=true&limit=100", f"/v1/recommendations?since={WEEKS[0].label}&limit=100"]
    paths += [f"/v1/findings/{id_}?since={week.label}" for id_, week in findings[:3]]
    paths += [f"/findings/{id_}?week={week.label}" for id_, week in findings[:3]]
    paths += [f"/runs/slurm/alpha/{name}" for name in ("saving", "crossing", "abandoned", "trials")]
    for path in paths:
        answer = here.get(path)
        assert answer.status_code == 200, (path, answer.text[:300])
        yield path, answer.text


@dataclass(frozen=True)
class Served:
    """The API of a site, as an assistant asks it."""

    here: Site

    async def ask(self, path: str, query: Query, authorization: str | None) -> dict[str, Any]:
        """Return the document at an address."""
        asked = {name: str(value) for name, value in query.items() if value not in (None, [])}
        answer = await asyncio.to_thread(self.here.get, f"{path}?{urlencode(asked)}")
        assert answer.status_code == 200, (path, answer.text)
        return dict(answer.json())


def of_assistant(here: Site, findings: list[tuple[str, Period]]) -> list[tuple[str, str]]:
    """Return what the tools for a language model answer, each in its own words."""

    async def within() -> list[tuple[str, str]]:
        async with Client(create_server(Served(here))) as client:
            asked = [("findings", {"since": week.label, "rows": 50}) for week in WEEKS]
            asked += [("explain_finding", {"finding_id": id_, "since": week.label}) for id_, week in findings]
            told = []
            for name, arguments in asked:
                result = await client.call_tool(name, arguments)
                assert not result.is_error, result.content
                told.append((f"assistant {name}", str(result.structured_content)))
            return told

    return asyncio.run(within())


def test_whatever_is_offered_anywhere_is_known_by_its_id(served: tuple[Site, Reader]) -> None:
    """Who asks for it by its id, without knowing which week it was read of, must not hear that there is none."""
    here, reader = served
    findings = [(one.id, week) for week in WEEKS for one in reader.findings(week)]
    offered: dict[str, str] = {}
    of_tools: set[str] = set()
    for where, text in (*of_assistant(here, findings[:6]), *of_commands(reader), *of_server(here, findings)):
        offered |= dict.fromkeys(ID.findall(text), where)
        of_tools |= set(ID.findall(text)) if where.startswith("assistant") else set()
    assert len(offered) > 12
    assert of_tools
    assert len({where.split(" ")[0] for where in offered.values()}) > 2
    listed = {one.id for one in reader.all_advice(reader.findings(WEEKS[1]), WEEKS[1])}
    assert set(offered) - listed, "some are in no list of the last week"
    says = itertools.cycle((("acceptance", {}), ("rejection", {"because": "known"})))
    _is_known(reader, offered)
    for (id_, where), (word, body) in zip(offered.items(), says, strict=False):
        path = f"/v1/recommendations/{id_}/{word}"
        kept = here.client.post(path, json=body, headers=bearer(here.keys["admin"]))
        assert kept.status_code == 200, (where, kept.text)
    assert {word.recommendation_id for word in words(reader.session)} == set(offered)
    _is_known(reader, offered)  # held back or not


def _is_known(reader: Reader, offered: dict[str, str]) -> None:
    for id_, where in offered.items():
        assert id_ in answer(reader, Request("show", id_)), where


def test_what_is_of_hosts_alone_is_known_weeks_later(tmp_path: Path) -> None:
    """No run and no prediction says which week it was of: who has the id of an old mail need not know either."""
    fleet = Fleet()
    with fleet.together():
        fleet.own("n1", ["g1"])
        idle = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}
        fleet.sample("n1", "g1", MONDAY, MONDAY + 7 * DAY, every=HOUR // 2, **idle)
        fleet.sample("n1", "g1", MONDAY + 7 * DAY, MONDAY + 14 * DAY, every=HOUR // 2)
        fleet.hold("slurm/alpha/1", "n1", ["g1"], MONDAY + 7 * DAY, MONDAY + 14 * DAY)
    fleet.analyze(NOW)
    with fleet.store.session() as session:
        reader = Reader(session, settings(tmp_path), clock=lambda: NOW)
        first, second = Calendar().week_of(MONDAY), Calendar().week_of(MONDAY + 7 * DAY)
        old = {one.id for one in reader.all_advice(reader.findings(first), first)}
        gone = old - {one.id for one in reader.all_advice(reader.findings(second), second)}
        assert gone
        for id_ in gone:
            assert id_ in answer(reader, Request("show", id_))


def test_what_nobody_offers_is_known_to_nobody(served: tuple[Site, Reader]) -> None:
    """And a team is told nothing of what is another's."""
    here, reader = served
    with pytest.raises(LedgerError, match="has no recommendation 'r-22222'"):
        answer(reader, Request("show", "r-22222"))
    assert here.get("/v1/recommendations/r-22222").status_code == 404
    (of_holders, *_) = [one for one in reader.all_advice(reader.findings(WEEKS[0]), WEEKS[0]) if one.team == "holders"]
    assert here.get(f"/v1/recommendations/{of_holders.id}", "holders").status_code == 200
    assert here.get(f"/v1/recommendations/{of_holders.id}", "workers").status_code == 404
