"""A part of the ledger: it sums as its row of the whole does, and no words show more than a key may see."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuledger
from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.cli.report import report
from analyzer.interfaces.questions.registry import OF_PART, QUESTIONS, answer
from analyzer.reports.filtered_reader import confine, confined, of_part
from analyzer.reports.groups import By, groups
from analyzer.reports.reader import Reader
from analyzer.reports.request import FILTERS, LedgerFilter, Request
from collector.store.session import Session
from tests.analyzer.interfaces.api_sites import LATER, TOKEN, Site, analysed, settings
from tests.analyzer.interfaces.test_api_notices import sick

__all__ = ["sick"]  # a site with notices, which pytest finds by its name here

DAY = "since=2025-11-10"
TEAMS = ("holders", "workers")
HOSTILE = (
    "x') OR true --",
    "'",
    '"',
    "holders' OR '1'='1",
    "%",
    "*",
    "holders\n",
    "'; DROP VIEW runs; --",
    "null",
    "\\",
)


def week(site: Site, query: str = "", team: str | None = None) -> Any:
    """Return the week of the small site as a key of a team sees it."""
    return site.json(f"/v1/read?what=week&format=json&{DAY}{query}", team)


def amounts(breakdown: dict[str, Any]) -> list[tuple[str, str, int, int | None]]:
    """Return what a breakdown says, entry by entry."""
    return sorted((one["class"], one["label"], one["milliseconds"], one["cost_micros"]) for one in breakdown["entries"])


def findings(site: Site, query: str = "", team: str | None = None) -> list[dict[str, Any]]:
    """Return the findings of a list, without the figures that are rounded so that one list adds up."""
    found = site.json(f"/v1/read?what=findings&format=json&{DAY}{query}", team)["findings"]
    return [{**one, "display": None} for one in found]


@pytest.mark.parametrize("team", TEAMS)
def test_a_teams_week_is_its_row_of_the_whole_week(small: Site, team: str) -> None:
    """The bill that a team lead reads is the one that the director reads of that team, to the millionth."""
    whole, own = week(small), week(small, f"&team={team}")
    (row,) = [row for row in whole["teams"] if row["name"] == team]
    assert amounts(own["breakdown"]) == amounts(row["breakdown"])
    assert own["part"]["team"] == team
    for table in ("teams", "grouped"):
        rows = own[table] if table == "teams" else own[table]["rows"]
        entries = [entry for row in rows for entry in row["breakdown"]["entries"]]
        assert sum(entry["milliseconds"] for entry in entries) == sum(one[2] for one in amounts(row["breakdown"]))
        assert sum(entry["cost_micros"] for entry in entries) == sum(one[3] or 0 for one in amounts(row["breakdown"]))
    avoidable = sum(cost or 0 for klass, _, _, cost in amounts(row["breakdown"]) if klass == "avoidable")
    assert sum(one["at_stake_micros"] for one in findings(small, f"&team={team}")) == avoidable
    assert findings(small, f"&team={team}") == [one for one in findings(small) if one["team"] == team]


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("what", ["week", "findings", "recommend"])
def test_a_teams_own_key_reads_the_same(small: Site, what: str, team: str) -> None:
    """Whoever asks for a team sees what its own key sees without asking, and with."""
    query = f"/v1/read?what={what}&{DAY}"
    asked = small.get(f"{query}&team={team}").text
    assert f"team {team}" in asked
    assert small.get(f"{query}&team={team}", team).text == asked
    assert small.get(query, team).text == asked.replace(f" --team {team}", "")
    document, own = small.json(f"{query}&format=json&team={team}"), small.json(f"{query}&format=json", team)
    if what != "recommend":
        assert document.pop("part") | {"team": None, "teams": [team]} == own.pop("part")
    assert own == document


def test_what_nobody_held_and_what_is_the_fleets_is_in_no_part(small: Site) -> None:
    """Free and drained GPUs, silent hosts, the fleet's record: none is a team's, and none is in its sums."""
    own = week(small, "&team=holders")
    assert {entry["class"] for entry in own["breakdown"]["entries"]}.isdisjoint({"spare"})
    assert [row["name"] for row in own["teams"]] == ["holders"]
    assert own["record"] is None
    text = small.get(f"/v1/read?what=week&{DAY}&team=holders").text
    assert "GPU-hours held on" in text
    for fleets in ("owned,", "nobody", "free ", "drained", "accuracy"):
        assert fleets not in text


def test_notices_of_hosts_are_the_fleets(sick: Site) -> None:
    """A session that sees no sample would call every host silent: what was noticed comes from the whole."""
    query = "/v1/read?what=findings&format=json&everything=True"
    whole = sick.json(query)["notices"]
    assert len(whole) > 1
    own = sick.json(f"{query}&team=holders")["notices"]
    assert [(one["rule"], one["run_ids"]) for one in own] == [("fleet/cpu_only", ["slurm/alpha/1"])]
    assert sick.json(query, "holders")["notices"] == own
    assert sick.json(f"{query}&team=workers")["notices"] == []
    missing = sick.json("/v1/read?what=findings&format=json&unjudged=True", "workers")["not_judged"]
    assert {one["subject"] for one in missing} <= {"slurm/alpha/2"}


@pytest.mark.parametrize("name", ["workers", "nobody's", "none such", *HOSTILE])
def test_no_filter_shows_a_teams_key_another_team(small: Site, name: str) -> None:
    """A filter on top of what a key may see can only narrow; that another team exists is not told either."""
    for what in ("week", "findings", "recommend"):
        query = {"what": what, "since": "2025-11-10", "team": name}
        answer = small.client.get(
            "/v1/read", params=query, headers={"Authorization": f"Bearer {small.keys['holders']}"}
        )
        assert answer.status_code == 404, answer.text
        assert answer.json()["detail"].startswith("the ledger has no run of team ")


@pytest.fixture(scope="module")
def session(small: Site) -> Iterator[Session]:
    """Yield a session that sees everything."""
    with small.fleet.store.session() as session:
        yield session


@given(
    st.dictionaries(st.sampled_from(FILTERS), st.text(min_size=1, max_size=20) | st.sampled_from((*TEAMS, *HOSTILE)))
)
def test_no_words_widen_what_a_team_sees(session: Session, words: dict[str, Any]) -> None:
    """Whatever is asked for on top, the runs are some of the team's own."""
    try:
        part = LedgerFilter(**words)
    except ConfigError:  # no name at all
        assert any("\0" in word for word in words.values())
        return
    with confined(session, LedgerFilter(teams=("holders",))) as own:
        allowed = {run for (run,) in own.rows("SELECT run_id FROM runs")}
        assert allowed
    with confined(session, replace(part, teams=("holders",))) as own:
        runs = {run for (run,) in own.rows("SELECT run_id FROM runs")}
        assert runs <= allowed
        assert {run for (run,) in own.rows("SELECT DISTINCT run_id FROM ledger")} <= runs
        if set(words) <= {"team"}:
            assert runs == (allowed if words.get("team", "holders") == "holders" else set())


def test_a_session_is_confined_once(small: Site) -> None:
    """New views would stand before the tables, not before the first ones: the team would see the others."""
    with small.fleet.store.session() as whole:
        with (
            confined(whole, LedgerFilter(teams=("holders",))) as own,
            pytest.raises(AssertionError, match="confined once"),
        ):
            confine(own, LedgerFilter(team="workers"))
        with (
            confined(whole, LedgerFilter(teams=("holders",))) as own,
            pytest.raises(AssertionError, match="confined once"),
        ):
            confine(own, LedgerFilter(teams=TEAMS))


@pytest.mark.parametrize("what", QUESTIONS)
def test_a_teams_key_reads_what_can_be_of_a_team(small: Site, what: str) -> None:
    """And nothing that is of the whole site: 403, whatever else is asked."""
    answer = small.get(f"/v1/read?what={what}&subject=none", "holders")
    assert answer.status_code in ((200, 404) if what in OF_PART else (403,)), answer.text
    if what not in OF_PART:
        assert answer.json()["detail"].startswith(f"{what} is of all teams, and this key is for holders alone")
        refused = small.get(f"/v1/read?what={what}&team=holders&subject=none")
        assert (refused.status_code, refused.json()["reason"]) == (404, "usage")


def test_a_finding_of_others_is_not_there(small: Site) -> None:
    """Explained or shown by its id: as if it were not."""
    (theirs, *_), (own, *_) = findings(small, team="workers"), findings(small, team="holders")
    for one, status in ((theirs, 404), (own, 200)):
        for form in ("text", "html", "json"):
            query = f"/v1/read?what=explain&subject={one['id']}&format={form}&{DAY}"
            assert small.get(query, "holders").status_code == status
    assert small.get(f"/v1/read?what=explain&subject={own['id']}&{DAY}", "holders").text.startswith(own["id"])


def test_who_spent_it_is_for_who_may_know(small: Site) -> None:
    """A filter by person tells as much as a table by person."""
    assert small.get(f"/v1/read?what=week&{DAY}&user=mira", "holders").status_code == 403
    assert small.client.get(
        f"/v1/read?what=week&{DAY}&user=mira", headers={"Authorization": f"Bearer {small.keys['admin']}"}
    ).status_code in (200, 404)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Yield a reader of the small site, where runs of one name are of two projects."""
    with analysed(LATER).store.session() as session:
        session.execute("UPDATE runs SET name = 'sweep', team = 'ours', project = 'b', owner = 'mira'")
        session.execute("UPDATE runs SET project = 'a', queue = 'q', stage = 'train' WHERE run_id > 'slurm/alpha/n'")
        yield Reader(session, settings(tmp_path_factory.mktemp("shared")))


@pytest.mark.parametrize("by", ["team", "project", "user", "model", "stage", "queue"])
def test_parts_sum_to_the_rows_of_the_table_by_it(shared: Reader, by: By) -> None:
    """Of a finding that two projects share each sees its own half, and the halves sum to what was avoidable."""
    period = shared.period("2025-11-10")
    rows = [row for row in groups(shared.session, period, by).rows if row.held and row.name is not None]
    assert rows or by == "model"
    whole = {one.id for one in shared.findings(period)}
    for row in rows:
        asked: dict[str, Any] = {by: row.name}
        with of_part(shared, LedgerFilter(**asked)) as own:
            report, listed = own.week(period), own.list_findings(period)
        assert report.breakdown.entries == row.breakdown.entries
        assert report.table.by == "run"
        assert sum(one.breakdown.milliseconds for one in report.table.rows) == row.breakdown.milliseconds
        assert sum(one.milliseconds for one in listed.findings) == row.breakdown.of("avoidable").milliseconds
        assert sum(one.at_stake_micros or 0 for one in listed.findings) == row.breakdown.of("avoidable").cost_micros
        assert {one.id for one in listed.findings} <= whole
        assert all(own.holds(one) for one in report.recommendations)


def test_a_name_that_is_not_there_is_told(shared: Reader) -> None:
    """A slip in a team's name must not read as a team without waste."""
    with (
        pytest.raises(LedgerError, match="the ledger has no run of team uors"),
        of_part(shared, LedgerFilter(team="uors")),
    ):
        pass
    with pytest.raises(ConfigError, match="'' is not a valid team"):
        LedgerFilter(team="")
    with pytest.raises(AssertionError, match="another part"):
        answer(shared, Request("week", team="ours"))


def test_a_mail_is_to_whom_the_settings_say() -> None:
    """A filter that were dropped in silence would send the whole fleet's week."""
    with pytest.raises(ConfigError, match="and not --team ours"):
        report(["--mail", "--team", "ours"])


def test_a_team_that_held_nothing_is_told_so(shared: Reader) -> None:
    """And a period that nobody has analysed says nothing of anybody."""
    shared.session.execute("UPDATE runs SET team = 'resting' WHERE run_id = 'slurm/alpha/crossing'")
    shared.session.execute("DELETE FROM ledger WHERE run_id = 'slurm/alpha/crossing'")
    with of_part(shared, LedgerFilter(team="resting")) as own:
        said = answer(own, Request("week", "2025-11-10", team="resting"))
        assert "No run of team resting held a GPU in this" in said
        assert "The ledger has no hour" in answer(own, Request("week", since="2024-W46", team="resting"))


def test_a_command_asks_a_server_for_the_same_part(
    small: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The words of the command are those of the address."""
    monkeypatch.setenv("GPULEDGER_TOKEN", TOKEN)
    server = ["--server", str(small.client.base_url), "--width", "80", "--plain"]
    assert gpuledger.main(["report", "2025-11-10", "--team", "holders", *server]) == 0
    text = capsys.readouterr().out
    assert text == small.get(f"/v1/read?what=week&{DAY}&team=holders&ascii=true").text
    assert "next: gpuledger findings --team holders" in text
    assert gpuledger.main(["findings", "--since", "2025-11-10", "--team", "holders", "--json", *server]) == 0
    assert json.loads(capsys.readouterr().out)["part"]["team"] == "holders"
    assert gpuledger.main(["recommendations", "--since", "2025-11-10", "--team", "uors", *server]) == 3
    assert "no run of team uors" in capsys.readouterr().err
