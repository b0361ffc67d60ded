"""The doctor on the store and on those who send: each thing that can be wrong is made so, and is said."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.contract import SCHEMA_VERSION
from agent.wire.units import DAY_US
from analyzer.interfaces.doctor.cli import doctor
from analyzer.interfaces.doctor.connections import access, agents, ends_at
from analyzer.interfaces.doctor.examination import WIDTH, Examination, document, examination, jobs, ledger, page
from analyzer.interfaces.doctor.invariants import Check
from analyzer.interfaces.doctor.sight import CheckLine, Live, Section, Sight
from analyzer.interfaces.doctor.storage import Gain, at_rest_bytes, forecast, full_in_days, gains, storage
from analyzer.settings.settings import Settings
from collector.background import OWN_SENDERS
from collector.backup.backup_maker import make_backup
from collector.backup.manifest import place_of
from collector.config import CollectorConfig
from collector.lake.keeper import JobState, give, take
from collector.lake.lake_files import LakeFile
from collector.lake.retention import Keeping
from collector.registry import AccessKey
from collector.store.database import Store
from collector.store.schemas import make_tier_tables
from tests.collector.serving import running
from tests.operations.site import Site

SECOND = 1_000_000
NOW = 1_763_000_000 * SECOND


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A store with a lake, and nothing in it."""
    with Site(tmp_path / "store.duckdb") as made:
        yield made


@pytest.fixture
def sight(site: Site) -> Iterator[Sight]:
    """A look at it."""
    assert site.store.path is not None
    with site.store.session() as session:
        yield Sight(site.store, session, Settings(), CollectorConfig(store=site.store.path), NOW)


def heard(
    site: Site, agent: str, ago: float, *, late: float = 0.05, version: int = SCHEMA_VERSION, batches: int = 1
) -> None:
    """Write receipts of an agent whose newest came `ago` seconds before now, sent `late` seconds earlier."""
    with site.store.hot_session() as session:
        (last,) = session.row("SELECT coalesce(max(batch), 0) FROM receipts")
        for number in range(batches):
            at = NOW - round((ago + (batches - 1 - number)) * SECOND)
            sent = at - round(late * SECOND)
            session.execute(
                "INSERT INTO receipts VALUES (?, ?, ?, ?, '', ?, ?, ?, 1)",
                [last + (number + 1) * 256, agent, f"stream of {agent}", number, sent, at, version],
            )


def told(section: Section, answer: str) -> list[str]:
    """Return what the lines of one answer say."""
    return [line.what for line in section.lines if line.answer == answer]


def test_agents_that_send_are_well(site: Site, sight: Sight) -> None:
    """Every line is ok, and says what was held to it."""
    for node in ("n1", "n2"):
        heard(site, node, 10)
    assert {line.answer for line in agents(sight).lines} == {"ok"}
    assert "2 agents sent within 5 min" in agents(sight).lines[1].what


def test_a_silent_agent_is_named_with_since_when(site: Site, sight: Sight) -> None:
    """The first question of whoever is called at night: which, and since when. A long list has an end."""
    heard(site, "n1", 10)
    for number in range(10, 18):
        heard(site, f"n{number}", 3600 + number)
    (said,) = told(agents(sight), "bad")
    assert said.startswith("8 of 9 agents of today are silent: n17 since 2025-11-13 01:13, n16 since")
    assert said.endswith("and 3 more")


def test_imports_are_no_agents(site: Site, sight: Sight) -> None:
    """A file that was imported this morning is not silent since, nor a scheduler that ends with its last run."""
    for sender in OWN_SENDERS:
        heard(site, f"{sender}a", 7200, late=60)
    assert told(agents(sight), "note") == ["no agent has sent anything within a day"]
    heard(site, "n1", 10)
    assert {line.answer for line in agents(sight).lines} == {"ok"}
    assert "1 agent sent within 5 min" in agents(sight).lines[1].what


def test_agents_of_a_store_that_nobody_serves_are_not_called_silent(site: Site, sight: Sight) -> None:
    """Whoever tries a restored copy was sent to its hosts: nothing can come to it, and they send elsewhere."""
    heard(site, "n01", 3600)
    heard(site, "n02", 3600 + 60)
    assert told(agents(sight), "bad") == ["nobody serves this store; the newest batch came 60 min ago"]
    assert "2 agents sent within 5 min of the newest batch; none is silent" in told(agents(sight), "ok")
    of_server = told(agents(replace(sight, live=Live())), "bad")
    assert of_server[1].startswith("2 of 2 agents of today are silent"), "to a server they do not send"


def test_agents_of_a_simulated_week_are_not_waited_for(site: Site, sight: Sight) -> None:
    """A demo's first look at its health said that every host was silent and every clock a week behind."""
    heard(site, "n1", 3600, late=600_000.0)
    heard(site, "n2", 3660, late=600_000.0)
    simulated = agents(replace(sight, live=Live(), is_simulated=True))
    assert told(simulated, "bad") == []
    (words,) = told(simulated, "note")
    assert words == "2 agents sent a simulated week, the newest batch 60 min ago; none is expected to go on"


def test_a_store_that_gets_nothing_lags(site: Site, sight: Sight) -> None:
    """All silent at once: it is not they."""
    heard(site, "n1", 3600)
    assert "the newest batch came 60 min ago" in told(agents(replace(sight, live=Live())), "bad")


@pytest.mark.parametrize(("late", "words"), [(-5.0, "n1 5.0 s ahead"), (5.0, "n1 5.0 s behind")])
def test_a_clock_that_is_off_is_named(site: Site, sight: Sight, late: float, words: str) -> None:
    """Ends of allocations and of samples would not agree."""
    heard(site, "n1", 10, late=late, batches=20)
    heard(site, "n2", 10, batches=20)
    assert told(agents(sight), "bad") == [f"1 clock off by more than 2 s: {words}"]


def test_a_spool_that_is_emptied_is_no_clock_that_is_off(site: Site, sight: Sight) -> None:
    """Its batches are old, its newest is not: the least delay tells the clock."""
    heard(site, "n1", 20, late=500, batches=15)
    with site.store.hot_session() as session:
        session.execute(
            "INSERT INTO receipts VALUES (99999999, 'n1', 'stream of n1', 99, '', ?, ?, ?, 1)",
            [NOW - SECOND, NOW - SECOND, SCHEMA_VERSION],
        )
    assert told(agents(sight), "bad") == []
    assert told(agents(sight), "note") == ["batches come late, by a full spool or a slow network: n1 by 8 min"]


def test_agents_of_another_version_are_named(site: Site, sight: Sight) -> None:
    """What a newer one sends beyond us is not read: an upgrade brings it."""
    heard(site, "old", 10, version=SCHEMA_VERSION - 1)
    heard(site, "new", 10, version=SCHEMA_VERSION + 1)
    seen = agents(replace(sight, live=Live(ignored={"column": 3, "table": 0})))
    assert told(seen, "note") == [
        f"new speaks a newer schema than this server ({SCHEMA_VERSION})",
        f"old speaks an older schema than this server ({SCHEMA_VERSION})",
        "3 columns of newer agents were not read since the server began",
    ]


def test_a_host_that_tells_what_is_not_its_own_is_named(site: Site, sight: Sight) -> None:
    """It may be broken, or taken: who runs the site must not have to look into a table to know."""
    heard(site, "n1", 10)
    with site.store.hot_session() as session:
        session.execute(
            "INSERT INTO quarantine VALUES (1, ?, 'n1', 'ownership', 'node', ?, '{}')",
            [NOW - SECOND, "ownership comes from a scheduler or the operator, not from a host"],
        )
    (said,) = told(agents(sight), "note")
    assert (
        said
        == "1 row of n1 put aside within a day; n1: ownership comes from a scheduler or the operator, not from a host"
    )


def test_what_waits_too_long_to_be_sealed_is_said(site: Site, sight: Sight) -> None:
    """The lake is away, or a disk is full; before the first batch nothing is sealed, nor is a day's gain 0 bytes."""
    assert "no batch has come yet" in told(storage(sight), "note")
    assert not [words for words in told(forecast(sight), "ok") if "comes to 0 bytes" in words]
    heard(site, "n1", 100)
    assert "1 batch not sealed yet, the oldest for 100 s" in told(storage(sight), "ok")
    heard(site, "n2", 7200)
    assert "2 batches not sealed yet, the oldest for 2 h" in told(storage(sight), "bad")
    site.seal()
    assert "every batch is sealed" in told(storage(sight), "ok")


def test_a_sealing_that_fails_is_said(sight: Sight) -> None:
    """Only the server knows."""
    assert told(storage(replace(sight, live=Live(seal_error="no"))), "bad") == [
        "the last sealing failed; it is tried again"
    ]


def test_the_newest_backup_has_an_age(site: Site, sight: Sight) -> None:
    """None, fresh, old, damaged."""
    assert site.store.path is not None
    folder = place_of(sight.config, site.store.path)
    assert "no backup was made where the settings say" in told(storage(sight), "note")
    made = make_backup(site.store, folder)
    seen = replace(sight, now_us=made.manifest.made_at + 3 * 3600 * SECOND)
    assert "the newest backup is 3 h old" in told(storage(seen), "ok")
    seen = replace(sight, now_us=made.manifest.made_at + 9 * DAY_US)
    assert "the newest backup is 9 d old" in told(storage(seen), "note")
    (made.path / "manifest.json").write_text("{}")
    assert any("damaged" in what for what in told(storage(seen), "bad"))


def test_a_store_in_use_is_seen_by_its_lake_alone(tmp_path: Path) -> None:
    """What could not be looked at is said, and is no fault."""
    config = CollectorConfig(store=tmp_path / "store.duckdb", gather_seconds=0)
    with Site(config.store) as site:
        site.take([1])
        site.seal()
    with running(config):
        command = [sys.executable, "-m", "gpuledger", "admin", "doctor", "--store", str(config.store)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[2])
    assert "  -    the hot file: another process has it" in ran.stdout, ran.stderr
    assert "-> use --server URL" in ran.stdout


def gain(table: str = "gpu_samples", rate: float = 100.0, kept: int = 10, held: int = 0) -> Gain:
    """Return what a table gains."""
    return Gain(table, rate, kept, held)


def test_a_disk_is_full_when_what_is_gained_is_more_than_what_is_free() -> None:
    """A tier stops to grow when it is as old as it may get."""
    assert full_in_days([gain()], 1000) is None
    assert full_in_days([gain()], 999) == 10
    assert full_in_days([gain(held=9)], 99) == 1
    assert full_in_days([gain(held=10)], 0) is None
    assert full_in_days([gain(), gain("gpu_samples_hours", 1.0, 400)], 1100) == 101
    assert at_rest_bytes([gain(), gain("gpu_samples_hours", 1.0, 400)]) == 1400


@given(
    st.lists(st.builds(Gain, st.just("t"), st.floats(0, 1e6), st.integers(1, 400), st.integers(0, 400)), max_size=5),
    st.integers(0, 10**8),
)
def test_the_day_it_is_full_is_the_first_such_day(gained: list[Gain], free: int) -> None:
    """Added up to the day before it still fits, and with that day it does not."""

    def gained_until(day: int) -> float:
        return sum(one.bytes_a_day * max(0, min(day, one.kept_days - one.held_days)) for one in gained)

    day = full_in_days(gained, free)
    if day is None:
        assert gained_until(3650) <= free * (1 + 1e-9) + 1e-6
    else:
        assert gained_until(day) > free * (1 - 1e-9) - 1e-6
        assert gained_until(day - 1) <= free * (1 + 1e-9) + 1e-6


def test_a_day_gains_what_its_files_hold() -> None:
    """By the time that is in them, not by when they were written; today is not over, and is left out."""
    today = 20_000

    def file(table: str, day: int, size: int) -> LakeFile:
        return LakeFile(table, "f", size, 1, day * DAY_US, (day + 1) * DAY_US - 1, has_deletes=False)

    found = [*(file("gpu_samples", today - age, 100) for age in range(1, 15)), file("gpu_samples", today, 7)]
    found += [file("host_samples", today, 40)]
    keeping = Keeping(raw_days=30)
    assert gains(found, keeping, today * DAY_US + 5) == [
        Gain("gpu_samples", 100.0, 30, 15),
        Gain("host_samples", 40.0, 30, 1),
    ]


def test_the_forecast_of_a_real_lake(site: Site, sight: Sight) -> None:
    """What the catalogue tells is read as it is."""
    site.take(range(1, 360))
    site.seal()
    said = [line.what for line in forecast(sight).lines]
    assert said[0].startswith("a day brings ")
    assert "gpu_samples" in said[0]
    assert re.search(r"are free.*kept as set, the lake comes to ", said[1])


@pytest.mark.parametrize(
    ("days", "answer", "words"),
    [(100, "ok", "good for"), (20, "note", "ends in 20 d"), (3, "bad", "ends in 3 d"), (-1, "bad", "ended")],
)
def test_a_certificate_that_ends_soon_is_said(sight: Sight, tmp_path: Path, days: int, answer: str, words: str) -> None:
    """Every agent stops at the same moment when it ends."""
    file = certificate(tmp_path)
    seen = replace(
        sight,
        config=replace(sight.config, tls_certificate=str(file), tls_key=str(file)),
        now_us=ends_at(file.read_text()) - days * DAY_US - (SECOND if days > 0 else -SECOND) * -1,
    )
    (line,) = [line for line in access(seen).lines if "certificate" in line.what]
    assert (line.answer, words in line.what) == (answer, True), line


def certificate(folder: Path) -> Path:
    """Return a certificate that ends in 90 days, made by openssl."""
    file = folder / "tls.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "90", "-subj", "/CN=gpuledger"]
    subprocess.run([*command, "-keyout", str(folder / "key"), "-out", str(file)], check=True, capture_output=True)
    return file


def test_a_certificates_end_is_what_openssl_says(tmp_path: Path) -> None:
    """Its dates are read by ours, since the standard library has no reader of a file's."""
    file = certificate(tmp_path)
    said = subprocess.run(
        ["openssl", "x509", "-in", str(file), "-noout", "-enddate", "-dateopt", "iso_8601"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert said.strip() == "notAfter=" + time.strftime(
        "%Y-%m-%d %H:%M:%SZ", time.gmtime(ends_at(file.read_text()) / SECOND)
    )


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"])
def test_what_is_no_certificate_is_said(text: str) -> None:
    """The file may be cut, or the key."""
    with pytest.raises(ValueError):  # noqa: PT011 - the library's own words
        ends_at(text)


def test_keys_that_end_soon_are_said(sight: Sight) -> None:
    """Who holds one must be told before it is closed."""
    assert told(access(sight), "unseen") == ["keys: the registry was not reached from here"]
    soon = AccessKey("k-1", "read", "grafana", "", 0, "me", expires_at=NOW + 2 * DAY_US)
    gone = AccessKey("k-2", "read", "old", "", 0, "me", expires_at=NOW - 1)
    assert told(access(replace(sight, keys=(soon, gone))), "note") == ["1 key of 1 end soon: grafana 2025-11-15 02:13"]
    assert told(access(replace(sight, keys=(gone,))), "note") == []


def test_a_job_that_fails_is_said(site: Site, sight: Sight) -> None:
    """Retention that fails fills the disk, and roll-ups that fail keep samples from being dropped."""
    assert "no maintenance job has run on this store yet" in told(jobs(sight), "note")
    make_tier_tables(site.store)
    assert take(site.store, "merge", NOW, NOW + 1)
    give(site.store, JobState("merge", "done", "", NOW, NOW, NOW), NOW + 1)
    assert "1 maintenance job went well" in told(jobs(sight), "ok")
    assert take(site.store, "retention", NOW, NOW + 1)
    give(site.store, JobState("retention", "failed", "the lake refused", NOW, 0, NOW), NOW + 1)
    assert told(jobs(sight), "bad") == ["retention failed: the lake refused"]
    assert "the last analysis failed: no" in told(jobs(replace(sight, live=Live(analysis_error="no"))), "bad")


def test_a_ledger_that_is_off_is_said_to_the_unit() -> None:
    """The figures are those of --json."""
    checks = [Check("money", "costs sum", 5, 7, "millionths"), Check("rows", "no row is empty", 0, 0, "rows")]
    assert [line.answer for line in ledger(checks).lines] == ["bad", "unseen"]
    assert ledger(checks).lines[0].what == "money: not so that costs sum; 7 millionths off in 5"


def found() -> Examination:
    """Return an examination with a line of every kind."""
    long = "2 of 24 agents of today are silent: n07 since 2025-11-13 01:13, n19 since 2025-11-13 01:14"
    return Examination(
        "/var/lib/gpuledger/gpuledger.duckdb",
        NOW,
        (Check("money", "costs sum to the price of what is owned", 4032, 7, "millionths"),),
        (
            ledger([Check("money", "costs sum to the price of what is owned", 4032, 7, "millionths")]),
            Section("STORE", (CheckLine("unseen", "the hot file", "use --server URL"), CheckLine("note", "no backup"))),
            Section(
                "AGENTS",
                (CheckLine("bad", long, "look there"), CheckLine("ok", "every clock is within 2 s of this one")),
            ),
        ),
    )


def test_the_page(golden: Callable[[str, str], None]) -> None:
    """As on screen 9: 80 columns, plain ASCII, the way out below what is wrong."""
    text = page(document(found()))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= WIDTH
    golden("doctor/page.txt", text + "\n")


def test_the_document(golden: Callable[[str, str], None]) -> None:
    """Version 2; the invariants are there as in version 1."""
    golden("doctor/document.json", json.dumps(document(found()), indent=1) + "\n")


def test_a_store_that_does_not_answer_is_a_line_and_not_the_end(site: Site, sight: Sight) -> None:
    """The doctor is called when things are broken."""
    with site.store.hot_session() as session:
        session.execute("ALTER TABLE receipts RENAME TO lost")
    seen = examination(sight)
    assert not seen.is_right
    assert any("does not answer" in what for section in seen.sections for what in told(section, "bad"))


def test_the_command_says_it_with_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 where nothing needs mending, 1 where something does; the same from a file as from a server."""
    store = tmp_path / "store.duckdb"
    Store.open(store).close()
    assert doctor(["--store", str(store)]) == 0
    assert "no issues; 9 checks could not be made" in capsys.readouterr().out
    with Store.open(store) as opened, opened.session() as session:
        session.execute(
            "INSERT INTO ledger BY NAME SELECT 0 AS hour, 'g' AS gpu_uuid, 'n' AS node, 'productive' AS state, "
            "false AS shared, -1 AS milliseconds, '' AS rules_version"
        )
    assert doctor(["--store", str(store), "--json"]) == 1
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (said["version"], said["right"]) == (2, False)
    assert {check["name"] for check in said["checks"] if not check["right"]} >= {"rows"}
