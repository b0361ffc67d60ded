"""`gpuledger findings judge` and `mute`: on a store that nobody has, and on a running server."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.decisions import judge, mute
from analyzer.interfaces.cli.report import findings, findings_explain, report
from collector.errors import StoreError
from collector.store.database import Store
from tests.analyzer.interfaces.api_sites import site
from tests.analyzer.small_site import analysed_site
from tests.collector.access.conftest import add_key

HOLDER = """
import sys, time
from pathlib import Path
from collector.store.database import Store
with Store.open(Path(sys.argv[1])):
    print("open", flush=True)
    time.sleep(600)
"""
PLAIN = ["--since", "2025-W46"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store on disk with the small site, analysed."""
    path = tmp_path_factory.mktemp("commands") / "store.duckdb"
    fleet = analysed_site()
    with Store.open(path) as made, fleet.store.session() as source, made.session() as target:
        tables = [name for (name,) in source.rows("SELECT table_name FROM duckdb_tables() WHERE NOT temporary")]
        for table in tables:
            rows = source.arrow(f"SELECT * FROM {table}")
            if rows.num_rows and table != "migrations":
                target.insert(table, rows)
    return path


def first_id(store: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the id that the list asks to explain first."""
    findings([*PLAIN, "--store", str(store)])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next:")]
    return line.split()[-1]


def test_what_is_judged_on_a_store_is_in_the_week(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Said once, it is on the finding and in the published record."""
    one = first_id(store, capsys)
    assert judge([one, "wrong", "--because", "by design", *PLAIN, "--store", str(store)]) == 0
    assert "The ledger stays as it was measured" in capsys.readouterr().out
    findings_explain([one, *PLAIN, "--store", str(store)])
    assert "wrong, said" in capsys.readouterr().out
    report(["2025-W46", "--store", str(store)])
    assert 'of 1 "high" finding with feedback, 0 were right (0%)' in " ".join(capsys.readouterr().out.split())


def test_check_fails_for_what_is_new_and_nobody_has_looked_at(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipeline that fails for what was judged planned would soon be switched off."""
    listed = [*PLAIN, "--store", str(store), "--check"]
    assert findings(listed) == 1
    capsys.readouterr()
    findings([*PLAIN, "--store", str(store), "--sure", "high", "--json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    *others, last = (one["id"] for one in found if one["confidence"] == "high")
    for one in (*others, last):
        if one == last:
            assert findings(listed) == 1
        judge([one, "planned", "--because", "agreed", *PLAIN, "--store", str(store)])
    assert findings(listed) == 0


def test_a_mute_without_an_end_is_refused(store: Path) -> None:
    """Before the store is opened, and with the longest that is allowed."""
    with pytest.raises(ConfigError, match="no more than 90 days"):
        mute(["f-aaaa", "--until", "2999-01-01", "--because", "x", "--store", str(store)])


def test_a_store_that_a_server_has_says_whom_to_ask(store: Path) -> None:
    """DuckDB lets one process in; in the same process it is refused in other words, so that another one holds it."""
    command = [sys.executable, "-c", HOLDER, str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(StoreError, match="--server URL"):
            judge(["f-aaaa", "right", "--because", "x", "--store", str(store)])
        holder.kill()


def test_a_server_is_told_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody stops a server to judge a finding."""
    with site(tmp_path) as running:
        monkeypatch.setenv("GPULEDGER_TOKEN", add_key(running.registry, "owner"))
        one = running.items("/v1/findings")[0]["id"]
        server = ["--server", str(running.client.base_url)]
        assert judge([one, "planned", "--because", "agreed", *server]) == 0
        with pytest.raises(ConfigError, match="no more than 90 days"):
            mute([one, "--until", "2999-01-01", "--because", "x", *server])
        assert running.json(f"/v1/findings/{one}")["finding"]["judgement"]["verdict"] == "planned"
        day = datetime.now(UTC) + timedelta(days=9)
        assert mute([one, "--until", f"{day:%Y-%m-%d}", "--because", "agreed", *server]) == 0
        until = f"the end of {day:%a} {day.day} {day:%b}"  # in Berlin, where the site is; in UTC the day ends at 23:00
    said = " ".join(capsys.readouterr().out.split())
    assert "it was right, and is accepted" in said
    assert f"{one} is muted until {until};" in said
