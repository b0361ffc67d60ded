"""Requests for more GPUs over HTTP: asked by owners, waived by approvers, seen by their own teams."""

import asyncio
import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from analyzer.capacity.gate.decided import decided_of
from analyzer.interfaces.api.capacity import parsed
from analyzer.interfaces.cli.capacity_gate import gate, list_, show, waive
from analyzer.text.as_json import plain_data
from collector.errors import RegistryError
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.capacity.gate_asking import SAID as DRAWN
from tests.analyzer.capacity.gate_asking import SOON, profile
from tests.analyzer.capacity.gate_signing import policy_file, signed_document, signed_text
from tests.analyzer.interfaces.api_sites import LATER, Site, collector, settings
from tests.analyzer.small_site import small_site
from tests.collector.access.conftest import add_key, bearer
from tests.dashboards.serving import served
from tests.waiting import PATIENCE_SECONDS

SAID = DRAWN | {"starts": SOON}
# Teams without any run yet.
NEW_TEAMS = """
[[rule]]
team = "team-vision"
account = "vision"
from = 2020-01-01

[[rule]]
team = "team-nlp"
account = "nlp"
from = 2020-01-01
"""
PATH = "/v1/capacity-requests"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site of these tests' own, whose policy believes alpha and any age."""
    folder = tmp_path_factory.mktemp("capacity")
    bar = '[gates.age]\ndays = 100000\nsource = "these profiles are of one date"\nas_of = 2026-11-01\n'
    fleet, chosen = small_site(), replace(settings(folder), gates=policy_file(folder, bar))
    assert chosen.teams is not None
    chosen.teams.write_text(chosen.teams.read_text() + NEW_TEAMS)
    fleet.analyze(now=LATER, settings=chosen)
    app = create_server(ServerConfig(collector(), chosen, analyze_seconds=None), fleet.store)
    registry = app.state.access.registry
    keys = {role: add_key(registry, role) for role in ("read", "owner", "approver", "admin")}
    keys["nlp"] = add_key(registry, "owner", teams=("team-nlp",))
    keys["visio"] = add_key(registry, "owner", teams=("team-visio",))
    keys["vision"] = add_key(registry, "owner", teams=("team-vision",))
    keys["approver of nlp"] = add_key(registry, "approver", teams=("team-nlp",))
    keys["approver of vision"] = add_key(registry, "approver", teams=("team-vision",))
    with served(app) as client:
        yield Site(client, fleet, keys, registry)


def ask(to: Site, key: str = "nlp", profiled: Any = None, **changes: object) -> httpx.Response:
    """Ask for GPUs."""
    said = {name: value for name, value in (SAID | changes).items() if value is not None}
    body = {"request": said, "profile": signed_document(profile()) if profiled is None else profiled}
    return to.client.post(PATH, json=body, headers=bearer(to.keys[key]))


def asked(to: Site, key: str = "owner", **changes: object) -> Any:
    """Ask for GPUs, which must be taken."""
    answer = ask(to, key, **changes)
    assert answer.status_code == 200, answer.text
    return answer.json()["request"]


def drop(to: Site, identity: str, key: str = "approver", **body: str) -> httpx.Response:
    """Waive a gate."""
    told = {"gate": "useful", "reason": "the release is in March"} | body
    return to.client.post(f"{PATH}/{identity}/waivers", json=told, headers=bearer(to.keys[key]))


def test_a_request_is_judged_kept_and_told_whole(own: Site) -> None:
    """The answer is the decision that the command prints."""
    one = asked(own, why="whole")
    assert (one["verdict"], one["team"]) == ("FAIL", "team-nlp")
    decided = decided_of(one["decided"])
    assert plain_data(decided) == one["decided"]
    assert decided.evidence is not None
    assert decided.evidence.signed_by == "alpha"
    assert [gate.name for gate in decided.gates if gate.outcome == "FAIL"] == ["useful", "waiting", "recommendations"]
    assert own.json(f"{PATH}/{one['id']}", "read")["request"] == one
    assert asked(own, why="whole") == one  # again: the same request, the same history
    assert [(entry.action, entry.detail) for entry in own.registry.audit.since(0) if entry.subject == one["id"]] == [
        ("ask for capacity", "team-nlp: FAIL")
    ]


def test_who_approves_waives_and_who_asks_does_not(own: Site) -> None:
    """Whoever asks needs somebody else's word, and the history says whose it was."""
    one = asked(own, why="to be waived")
    for key in ("read", "owner", "nlp", "admin"):
        assert drop(own, one["id"], key).status_code == 403
    for key in ("read", "approver"):
        assert ask(own, key).status_code == 403
    for name in ("useful", "waiting", "recommendations"):
        answer = drop(own, one["id"], gate=name)
        assert answer.status_code == 200, answer.text
    held = answer.json()["request"]
    assert held["verdict"] == held["decided"]["verdict"] == "PASS"
    assert [(event["kind"], event["role"]) for event in held["history"]] == [
        ("decided", "owner"),
        *[("waived", "approver")] * 3,
    ]
    assert all(event["who"] in own.keys["approver"] for event in held["history"][1:])


def test_a_team_sees_and_asks_for_its_own(own: Site) -> None:
    """Another team's request is not there for it: not in the list, not by its id, not to be waived."""
    one = asked(own, why="seen by its own")
    assert one["id"] in [each["id"] for each in own.items(PATH, "nlp")]
    assert own.items(PATH, "vision") == []
    assert own.items(f"{PATH}?team=team-nlp", "vision") == []
    assert own.get(f"{PATH}/{one['id']}", "vision").status_code == 404
    assert drop(own, one["id"], "approver of vision").status_code == 404
    assert ask(own, "vision").status_code == 403
    assert ask(own, "vision", team="team-vision").status_code == 409  # its profile is of another team


def test_a_teams_key_is_told_nothing_of_what_the_fleet_has_free(own: Site) -> None:
    """Who holds fewer is read off the free ones. Whoever sees all teams sees them, of the same request."""
    whole = asked(own, "owner", why="free GPUs")
    assert whole["decided"]["offer"]["free_gpus"] == 17
    assert "the fleet has 16 free" in whole["decided"]["headline"]
    seen = [
        asked(own, "nlp", why="free GPUs"),
        own.json(f"{PATH}/{whole['id']}", "nlp")["request"],
        next(each for each in own.items(PATH, "nlp") if each["id"] == whole["id"]),
        drop(own, whole["id"], "approver of nlp").json()["request"],
    ]
    for one in seen:
        decided = one["decided"]
        assert (decided["offer"]["free_gpus"], decided["offer"]["free_day"]) == (None, None)
        assert {decided["offer"][name]["to_buy"] for name in ("likely", "careful")} == {None}
        assert [option["to_buy"] for option in decided["options"]] == [None, None, None, 0]
        assert "free" not in decided["headline"] + decided["at_length"]
        assert any("keys of all teams see it" in text for text in decided["missing"])
        assert (one["verdict"], decided["gates"]) == (whole["verdict"], whole["decided"]["gates"])


def test_a_body_is_parsed_off_the_loop(own: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four megabytes take long enough that no agent would be answered meanwhile."""
    loops = list[bool]()

    def seen(content: bytes) -> Any:
        loops.append(asyncio._get_running_loop() is not None)
        return parsed(content)

    monkeypatch.setattr("analyzer.interfaces.api.capacity.parsed", seen)
    asked(own, why="off the loop")
    assert loops == [False]


def test_a_registry_that_does_not_answer_is_told(own: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is back in a moment, as a rule; what it said of its inside is for the log alone."""

    def gone(*_: object, **__: object) -> None:
        raise RegistryError("the registry at 10.0.0.7 failed")

    for name in ("find", "listed"):
        monkeypatch.setattr(own.registry.capacity, name, gone)
    for answer in (own.get(PATH, "read"), ask(own, "owner", why="to a silent registry")):
        assert (answer.status_code, answer.headers["retry-after"], "10.0.0.7" in answer.text) == (503, "5", False)


def begun(own: Site) -> tuple[int, str]:
    """Begin a body whose end does not come, and return what is said to that."""
    url = own.client.base_url
    connection = http.client.HTTPConnection(url.host, url.port, timeout=PATIENCE_SECONDS)
    with closing(connection):
        connection.putrequest("POST", PATH)
        for name, value in bearer(own.keys["owner"]).items() | {
            ("Content-Type", "application/json"),
            ("Content-Length", "2"),
        }:
            connection.putheader(name, value)
        connection.endheaders(b"{")
        answer = connection.getresponse()
        return answer.status, str(json.loads(answer.read())["detail"])


def test_so_many_bodies_are_held_and_no_more(own: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them holds megabytes: who comes then comes again, and the server goes on."""
    monkeypatch.setattr("analyzer.interfaces.api.capacity.HELD_AT_ONCE", 0)
    answer = ask(own, why="too many")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    monkeypatch.undo()
    monkeypatch.setattr("analyzer.interfaces.api.capacity.RECEIVED_SECONDS", 0.01)
    status, detail = begun(own)
    assert (status, "did not arrive within" in detail) == (503, True)
    monkeypatch.undo()
    assert ask(own, why="too many").status_code == 200


def test_a_name_that_nobody_knows_is_refused(own: Site) -> None:
    """Each team that is made up would have a pilot of its own; a key that sees no other teams is told of none."""
    small = {"pilot": True, "gpus": 8, "weeks": 2, "growth": None, "gpus_per_run": None, "team": "team-visio"}
    body = {"request": {key: value for key, value in (SAID | small).items() if value is not None}}
    answer = own.client.post(PATH, json=body, headers=bearer(own.keys["owner"]))
    assert (answer.status_code, "did you mean team-vision?" in answer.json()["detail"]) == (409, True)
    answer = own.client.post(PATH, json=body, headers=bearer(own.keys["visio"]))
    assert (answer.status_code, "team-vision" in answer.json()["detail"]) == (409, False)
    for changes, says in (({"sku": "H100-80G"}, "did you mean H100-80GB?"), ({"starts": "2026-01-01"}, "in the past")):
        answer = ask(own, **changes)
        assert (answer.status_code, says in answer.json()["detail"]) == (409, True)
    assert not [each for each in own.items(PATH, "owner") if each["team"] == "team-visio"]


def test_pages_go_on_where_the_last_one_ended(own: Site) -> None:
    """One by one, the newest first, each once."""
    ids = {asked(own, why=f"page {number}")["id"] for number in range(3)}
    walked = [each["id"] for each in own.items(f"{PATH}?limit=1", "read")]
    assert ids <= set(walked)
    assert len(walked) == len(set(walked))
    assert own.get(f"{PATH}?cursor=x", "read").status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("{", 422, "the body is not valid JSON"),
        ("[]", 422, "the body: Input should be"),
        ('{"request": 1}', 422, "request: Input should be"),
        (json.dumps({"request": SAID, "extra": 1}), 422, "extra: Extra inputs"),
        (json.dumps({"request": SAID | {"gpu": 1}}), 422, "unknown key 'gpu'; did you mean 'gpus'?"),
        (json.dumps({"request": SAID | {"team": "a\x1b[2J"}}), 409, "cannot be printed"),
        (json.dumps({"request": SAID | {"hours": 1}}), 409, "either 'weeks' or 'hours'"),
        ('{"request": {"gpus": NaN}}', 422, "NaN is not a valid number"),
        ('{"request": {"a": 1, "a": 2}}', 422, "a key occurs twice"),
        ('{"request": {}}', 422, "'team' is missing"),
        ("[" * 50_000, 422, "body"),
        (json.dumps({"request": SAID}), 409, "a capacity request needs the profile"),
        (json.dumps({"request": SAID, "profile": {}}), 409, "it has no 'profile'"),
        (json.dumps({"request": SAID | {"gpus": -1}, "profile": {}}), 422, "'gpus' must be a whole number"),
        (" " * 5_000_000, 413, "must not exceed 4,259,840 bytes"),
        (f'{{"request": [{"[]," * 400_000}1]}}', 413, "the maximum is 300,000"),
    ],
)
def test_a_body_that_is_none_is_told(own: Site, body: str, status: int, says: str) -> None:
    """In one sentence, and nothing is kept."""
    before = len(own.items(PATH, "read"))
    answer = own.client.post(PATH, content=body, headers=bearer(own.keys["nlp"]))
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert says in answer.json()["detail"]
    assert len(own.items(PATH, "read")) == before


@pytest.mark.parametrize(
    ("identity", "body", "status"),
    [
        ("q-zzzzz", {}, 404),
        ("x", {}, 422),
        (None, {"gate": "usefull"}, 409),
        (None, {"gate": "age"}, 409),
        (None, {"reason": ""}, 422),
        (None, {"who": "somebody else"}, 422),
        (None, {"reason": "x" * 9_000}, 413),
    ],
)
def test_a_waiver_that_is_none_is_told(own: Site, identity: str | None, body: dict[str, str], status: int) -> None:
    """And the verdict stays."""
    one = asked(own, why="no waiver")
    assert drop(own, identity or one["id"], **body).status_code == status
    assert own.json(f"{PATH}/{one['id']}", "read")["request"] == one


def test_an_edited_profile_fails_and_stays_failed(own: Site) -> None:
    """Nobody waives a signature."""
    document = signed_document(profile())
    document["profile"]["measured_ratio"] = 1.0
    one = asked(own, profiled=document, why="edited")
    assert one["decided"]["evidence"]["state"] == "edited"
    assert drop(own, one["id"], gate="signed").status_code == 409


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("site", "\ud800", "not valid UTF-8 text"),  # JSON can say it, and no answer could repeat it
        ("site", "x" * 300_000, "no more than 262,144"),
    ],
)
def test_a_profile_cannot_spoil_the_list(own: Site, place: str, value: str, says: str) -> None:
    """What is kept is told to everybody: one request that cannot be told would take the whole list with it."""
    document = signed_document(profile())
    document["profile"]["made"][place] = value
    answer = own.client.post(
        PATH, content=json.dumps({"request": SAID, "profile": document}), headers=bearer(own.keys["nlp"])
    )
    assert (answer.status_code, says in answer.text) == (409, True), answer.text
    own.items(PATH, "read")


def test_numbers_that_no_page_could_write_are_refused(own: Site) -> None:
    """They are finite, and overflow where percents and products are made of them."""
    document = signed_document(profile())
    document["profile"]["scaling"][0]["efficiency_ratio"] = 1e308
    assert ask(own, profiled=document).status_code == 409


def test_a_pilot_is_looked_up_in_the_ledger(own: Site) -> None:
    """The server knows who is new; the second pilot of a team is none."""
    small = {"pilot": True, "gpus": 8, "weeks": 2, "growth": None, "gpus_per_run": None, "team": "team-vision"}
    body = {"request": {key: value for key, value in (SAID | small).items() if value is not None}}
    head = bearer(own.keys["vision"])
    first = own.client.post(PATH, json=body, headers=head).json()["request"]
    assert (first["verdict"], first["decided"]["pilot"]) == ("PASS", True)
    body["request"]["why"] = "once more"
    second = own.client.post(PATH, json=body, headers=head).json()["request"]
    assert (second["verdict"], second["decided"]["gates"][3]["value"]) == ("FAIL", "1")


def test_the_command_asks_a_server(
    own: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same page as alone, with an id that can be waived."""
    (tmp_path / "r.json").write_text(json.dumps(SAID | {"why": "by command"}))
    (tmp_path / "p.json").write_text(signed_text(profile()))
    server = str(own.client.base_url)
    monkeypatch.setenv("GPULEDGER_TOKEN", own.keys["nlp"])
    assert gate([str(tmp_path / "r.json"), "--profile", str(tmp_path / "p.json"), "--server", server]) == 1
    page = capsys.readouterr().out
    identity = page.partition("request override ")[2].split()[0]
    monkeypatch.setenv("GPULEDGER_TOKEN", own.keys["approver"])
    assert waive([identity, "useful", "--reason", "the release", "--server", server]) == 0
    assert list_(["--server", server]) == 0
    assert show([identity, "--server", server]) == 0
    said = capsys.readouterr().out
    assert f"{identity}: useful is overridden; the verdict is now FAIL." in said
    assert "overridden by" in said
