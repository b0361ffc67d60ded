"""Every recommendation that a report, a page, a mail or a message offers by its id is known to all who ask by it."""

import re
from collections.abc import Iterator

import pytest

from analyzer.alarms.looking import present
from analyzer.alarms.settings import AlarmSettings
from analyzer.errors import LedgerError
from analyzer.mail.compose import compose
from analyzer.period import Calendar, Period
from analyzer.placement.life.kept import words
from analyzer.reading import Reader
from analyzer.request import Request
from tests.access.conftest import bearer
from tests.api.sites import Site, settings, site
from tests.ledger.fleet import DAY, MONDAY
from tests.report.test_run_advice import two_weeks

ID = re.compile(r"(?<![\w-])r-[a-hjkmnp-tv-z2-9]{5,13}\b")
NOW = MONDAY + 16 * DAY
WEEKS = (Calendar().week_of(MONDAY), Calendar().week_of(MONDAY + 8 * DAY))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Reader]]:
    """A server on a week in which much is lost and one in which a run works; and a reader of its store."""
    folder = tmp_path_factory.mktemp("offered")
    with site(folder, two_weeks(), NOW) as here, here.fleet.store.session() as session:
        yield here, Reader(session, settings(folder), clock=lambda: NOW)


def of_commands(reader: Reader) -> Iterator[tuple[str, str]]:
    """Yield what the commands print, and what is sent."""
    for week in WEEKS:
        for what in ("week", "recommend"):
            yield f"{what} {week.label}", reader.answer(Request(what, since=week.label, format="json", everything=True))
        found = reader.findings(week)
        for one in found[:3]:
            yield f"explain {one.id}", reader.answer(Request("explain", one.id, since=week.label))
        yield f"mail {week.label}", repr(compose(reader.week(week)))
    for (run_id,) in reader.session.rows("SELECT run_id FROM runs ORDER BY 1"):
        yield f"run {run_id}", reader.answer(Request("run", run_id))
    yield "alarms", repr(present(reader, AlarmSettings()))


def of_server(here: Site, findings: list[tuple[str, Period]]) -> Iterator[tuple[str, str]]:
    """Yield what its pages and its API say, the assistant's answers among it."""
    paths = [path.format(week.label) for week in WEEKS for path in ("/?week={}", "/placement?view=changes&week={}")]
    paths += ["/v1/recommendations?everything=true&limit=100", f"/v1/recommendations?since={WEEKS[0].label}&limit=100"]
    paths += [f"/v1/findings/{id_}?since={week.label}" for id_, week in findings[:3]]
    paths += [f"/findings/{id_}?week={week.label}" for id_, week in findings[:3]]
    paths += [f"/runs/slurm/alpha/{name}" for name in ("saving", "crossing", "abandoned", "trials")]
    for path in paths:
        answer = here.get(path)
        assert answer.status_code == 200, (path, answer.text[:300])
        yield path, answer.text


def test_whatever_is_offered_anywhere_is_known_by_its_id(served: tuple[Site, Reader]) -> None:
    """Who asks for it by its id, without knowing which week it was read of, must not hear that there is none."""
    here, reader = served
    findings = [(one.id, week) for week in WEEKS for one in reader.findings(week)]
    offered: dict[str, str] = {}
    for where, text in (*of_commands(reader), *of_server(here, findings)):
        offered |= dict.fromkeys(ID.findall(text), where)
    assert len(offered) > 12
    assert len({where.split(" ")[0] for where in offered.values()}) > 2
    listed = {one.id for one in reader.all_advice(reader.findings(WEEKS[1]), WEEKS[1])}
    assert set(offered) - listed, "some are in no list of the last week"
    for id_, where in offered.items():
        assert id_ in reader.answer(Request("show", id_)), where
        kept = here.client.post(f"/v1/recommendations/{id_}/acceptance", json={}, headers=bearer(here.keys["admin"]))
        assert kept.status_code == 200, (where, kept.text)
    assert {word.recommendation_id for word in words(reader.session)} == set(offered)


def test_what_nobody_offers_is_known_to_nobody(served: tuple[Site, Reader]) -> None:
    """And a team is told nothing of what is another's."""
    here, reader = served
    with pytest.raises(LedgerError, match="has no recommendation 'r-22222'"):
        reader.answer(Request("show", "r-22222"))
    assert here.get("/v1/recommendations/r-22222").status_code == 404
    (of_holders, *_) = [one for one in reader.all_advice(reader.findings(WEEKS[0]), WEEKS[0]) if one.team == "holders"]
    assert here.get(f"/v1/recommendations/{of_holders.id}", "holders").status_code == 200
    assert here.get(f"/v1/recommendations/{of_holders.id}", "workers").status_code == 404
