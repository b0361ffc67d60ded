"""`gpuledger capacity request`: its exit code is what a pipeline goes by, and with a store what it says is kept."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.errors import ConfigError
from analyzer.interfaces.cli.capacity_gate import gate, list_, show, waive
from collector.errors import StoreError
from collector.registry import open_registry, registry_file
from collector.store.database import Store
from tests.analyzer.capacity.gate_asking import SOON, profile
from tests.analyzer.capacity.gate_signing import policy_file, signed_text
from tests.analyzer.capacity.test_gate_request import TOML
from tests.analyzer.capacity.test_gate_verdict import good_booked

Said = tuple[int, str]


def recent(**changes: object) -> CapacityProfile:
    """Return the profile as if it had been measured until now, its last run too."""
    one, now = profile(**changes), time.time_ns() // 1000
    later = now - one.until_us
    runs = tuple(
        replace(run, started_at=run.started_at + later, ended_at=run.ended_at and run.ended_at + later)
        for run in one.runs
    )
    return replace(one, until_us=now, runs=runs)


def soon() -> str:
    """Return the request's file with a first day that is not past."""
    return TOML.replace("2026-12-01", SOON)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a request, two profiles and a policy; nothing else is around."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "request.toml").write_text(soon())
    (tmp_path / "pilot.toml").write_text(
        soon().replace("gpus = 32", "gpus = 8\npilot = true").replace("weeks = 8", "weeks = 2")
    )
    (tmp_path / "bad.json").write_text(signed_text(recent()))
    (tmp_path / "good.json").write_text(signed_text(recent(advice=(), booked=good_booked())))
    policy_file(tmp_path)
    return tmp_path


@pytest.fixture
def store(folder: Path) -> Path:
    """An empty store of a site with one team."""
    path = folder / "site.duckdb"
    Store.open(path).close()
    (folder / "gpuledger.toml").write_text('[analyzer]\ngates = "gates.toml"\nteams = "teams.toml"\n')
    (folder / "teams.toml").write_text('[[rule]]\nteam = "team-nlp"\naccount = "nlp"\nfrom = 2025-01-01\n')
    return path


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Return a function that runs a command and returns its exit code and what it printed."""

    def call(command: Callable[[list[str]], int], *words: str | Path) -> Said:
        code = command([str(word) for word in words])
        return code, capsys.readouterr().out

    return call


def test_the_exit_code_is_0_only_on_a_pass(folder: Path, say: Callable[..., Said]) -> None:
    """A pipeline needs nothing else: no store, no network, no settings."""
    code, out = say(gate, "request.toml", "--profile", "good.json", "--policy", "gates.toml")
    assert (code, "  PASS    All 11 required policy checks passed." in out, "signed by alpha, valid" in out) == (
        0,
        True,
        True,
    )
    code, out = say(gate, "request.toml", "--profile", "bad.json", "--policy", "gates.toml")
    assert (code, "Fix the loader first: then 16 more GPUs" in " ".join(out.split())) == (1, True)
    code, out = say(gate, "request.toml", "--profile", "good.json")
    assert (code, "  INCOMPLETE  profile signed by could not be evaluated." in out) == (1, True)
    assert sorted(path.name for path in folder.iterdir()) == [
        "bad.json", "gates.toml", "good.json", "pilot.toml", "request.toml",
    ]  # fmt: skip


def test_page_one_can_be_had_as_text(folder: Path, say: Callable[..., Said]) -> None:
    """For a ticket that shows no HTML: the verdict, the choices, then what was measured."""
    say(gate, "request.toml", "--profile", "bad.json", "--policy", "gates.toml", "--out", "page.txt")
    page = (folder / "page.txt").read_text("utf-8")
    parts = ("VERDICT: FAIL", "B fix first, then 16 (advised)", "EVIDENCE")
    places = [page.index(part) for part in parts]
    assert places == sorted(places)


def test_one_changed_digit_of_a_profile_fails(folder: Path, say: Callable[..., Said]) -> None:
    """Whoever edits the share that was useful edits the signature away."""
    edited = (folder / "good.json").read_text().replace('"team":"team-nlp"', '"team":null')
    (folder / "edited.json").write_text(edited)
    code, out = say(gate, "request.toml", "--profile", "edited.json", "--policy", "gates.toml")
    assert (code, "edited after it was signed" in " ".join(out.split())) == (1, True)


def test_json_says_all_of_it(say: Callable[..., Said], folder: Path) -> None:
    """With its schema and version; and the price that was given goes before the profile's."""
    words = ("request.toml", "--profile", "bad.json", "--policy", "gates.toml", "--json", "--price", "3.10")
    code, out = say(gate, *words)
    document = json.loads(out)
    assert (code, document["schema"], document["version"]) == (1, "gpuledger/gate", 1)
    assert document["decided"]["verdict"] == "FAIL"
    assert document["decided"]["micros"] == 43_008 * 3_100_000


def test_with_a_store_it_is_kept_listed_shown_and_waived(store: Path, say: Callable[..., Said]) -> None:
    """The registry beside the store has it, and the audit too; the settings beside it name the policy."""
    words = ("request.toml", "--profile", "bad.json", "--store", store)
    assert say(gate, *words, "--dry-run")[0] == 1
    assert say(list_, "--store", store)[1] == "there are no capacity requests yet\n"
    _, out = say(gate, *words, "--json")
    identity = json.loads(out)["decided"]["request_id"]
    assert identity in say(list_, "--store", store)[1]
    for name in ("useful", "waiting", "recommendations"):
        code, out = say(waive, identity, name, "--reason", "the release is in March", "--store", store)
        assert (code, out.startswith(f"{identity}: {name} is overridden; the verdict is now ")) == (0, True)
    code, out = say(show, identity, "--store", store)
    assert code == 0
    assert "  PASS    All 11 required policy checks passed, 3 of them by override." in out
    assert "HISTORY" in out
    assert say(gate, *words)[0] == 0  # asked again, its waivers hold
    with open_registry(registry_file(store)) as registry:
        actions = [entry.action for entry in registry.audit.since(0)]
    assert actions == ["ask for capacity", *["waive gate"] * 3]


def test_a_pilot_takes_a_site_that_knows_the_team(store: Path, say: Callable[..., Said]) -> None:
    """Alone nobody knows whether a team is new; with the store, it is, and a second pilot is none."""
    assert say(gate, "pilot.toml")[0] == 1
    code, out = say(gate, "pilot.toml", "--store", store)
    assert (code, "As a pilot, on one condition" in out) == (0, True)
    text = (store.parent / "pilot.toml").read_text().replace("three llama-sft runs", "four llama-sft runs")
    (store.parent / "again.toml").write_text(text)
    code, out = say(gate, "again.toml", "--store", store)
    assert (code, "1 of 4 policy checks failed." in out) == (1, True)


def test_the_bounds_are_those_of_the_settings_beside_the_store(store: Path, say: Callable[..., Said]) -> None:
    """A command keeps as much as the server of the same site does."""
    settings = store.parent / "gpuledger.toml"
    settings.write_text(settings.read_text() + "[collector]\ncapacity_requests = 1\n")
    words = ("--profile", "good.json", "--store", store)
    assert say(gate, "request.toml", *words)[0] == 0
    other = (store.parent / "request.toml").read_text().replace("gpus = 32", "gpus = 24")
    (store.parent / "other.toml").write_text(other)
    with pytest.raises(ConfigError, match="team-nlp has 1 capacity request, the maximum per team"):
        gate(["other.toml", *map(str, words)])
    settings.write_text(settings.read_text().replace("capacity_requests = 1", "capacity_days = 90"))
    with pytest.raises(ConfigError, match=r"looks back 180 days for pilots, and requests are kept for 90"):
        gate(["other.toml", *map(str, words)])


def test_a_team_that_the_site_does_not_know_is_refused(store: Path, say: Callable[..., Said]) -> None:
    """With a store there is somebody to ask, and the nearest name is told; nothing is kept."""
    for name, words in (("pilot", ()), ("request", ("--profile", "edited.json"))):
        text = (store.parent / f"{name}.toml").read_text().replace("team-nlp", "team-nlpp")
        (store.parent / "slip.toml").write_text(text)
        edited = (store.parent / "good.json").read_text().replace("team-nlp", "team-nlpp")
        (store.parent / "edited.json").write_text(edited)
        with pytest.raises(ConfigError, match=r"did you mean team-nlp\?"):
            gate(["slip.toml", "--store", str(store), *words])
    assert say(list_, "--store", store)[1] == "there are no capacity requests yet\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("request.toml",), "a capacity request needs the profile"),
        (("none.toml",), "cannot read none.toml"),
        (("request.toml", "--profile", "none.json"), "^cannot read none.json"),
        (("request.toml", "--profile", "request.toml"), "request.toml: it is not valid JSON"),
        (("request.toml", "--profile", "good.json", "--policy", "request.toml"), "unknown key"),
        (("request.toml", "--profile", "good.json", "--price", "-1"), "is not a price"),
        (("request.toml", "--server", "http://127.0.0.1:9", "--price", "1"), "--price is for this machine"),
    ],
)
def test_a_slip_is_told(folder: Path, words: tuple[str, ...], says: str) -> None:
    """In one sentence, which is exit code 2."""
    with pytest.raises(ConfigError, match=says):
        gate(list(words))


def test_a_store_that_is_not_there_is_told(folder: Path) -> None:
    """And none is made because somebody mistyped its name."""
    with pytest.raises(StoreError, match=r"there is no store at none\.duckdb"):
        waive(["q-7kq2x", "useful", "--reason", "x", "--store", "none.duckdb"])
    assert not list(folder.glob("none*"))


def test_several_kinds_are_decided_each_by_itself(folder: Path, say: Callable[..., Said]) -> None:
    """And the command passes only where all of them do; what is written for one kind is refused."""
    text = soon().replace('sku = "H100-80GB"\n', "")
    both = text.replace("gpus = 32", 'gpus = { "H100-80GB" = 32, "A100-80GB" = 16 }')
    (folder / "both.toml").write_text(both)
    (folder / "one.toml").write_text(text.replace("gpus = 32", 'gpus = { "H100-80GB" = 32 }'))
    alone = say(gate, "request.toml", "--profile", "good.json", "--policy", "gates.toml", "--plain")
    assert say(gate, "one.toml", "--profile", "good.json", "--policy", "gates.toml", "--plain") == alone
    code, out = say(gate, "both.toml", "--profile", "good.json", "--policy", "gates.toml", "--plain")
    assert code == 1
    assert out.startswith(alone[1])
    assert "16 more A100-80GB for 8 weeks" in out
    with pytest.raises(ConfigError, match="a file for each"):
        gate(["both.toml", "--profile", "good.json", "--json"])
