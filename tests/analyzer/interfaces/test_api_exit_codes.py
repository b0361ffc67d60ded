"""How commands end: the same slip has the same code on a store, from a server, and in every command."""

from pathlib import Path

import pytest

import gpuledger
from tests.analyzer.interfaces.api_sites import TOKEN, Site
from tests.collector.access.conftest import add_key

USAGE, WORLD = 2, 3
ON_A_STORE = (
    "report", "bill month", "report run last", "report traffic", "bill units", "bill anomalies", "capacity demand",
    "capacity portfolio", "findings", "findings --check", "findings explain f-aaaaa", "recommendations",
    "recommendations show r-aaaaa", "recommendations savings", "bill budgets", "bill budgets --check",
    "runs compare a b", "top --once", "bill prices check", "bill charges", "bill costs",
    "bill focus --month 2026-11 --out x.csv", "bill csv --month 2026-11 --out x.csv",
    "findings judge f-aaaaa right --because x", "findings mute f-aaaaa --until {day} --because x",
    "recommendations accept r-aaaaa", "recommendations reject r-aaaaa --because x", "bill teams check",
    "capacity profile --team x", "capacity request list", "capacity request show q-aaaaa", "admin doctor",
    "admin analyze", "admin mail", "admin alarms", "bill reconcile --invoice x.csv",
)  # fmt: skip
# What is asked, and how it ends: wrong in itself, or right and not there.
ASKED = (
    ("report the-day-before", USAGE),
    ("report 2031-W99", USAGE),
    ("report --format csv", USAGE),
    ("runs compare last --at yesteryear", USAGE),
    ("report run no-such-run", WORLD),
    ("findings explain f-zzzzz", WORLD),
    ("recommendations show r-zzzzz", WORLD),
)


@pytest.mark.parametrize("command", ON_A_STORE)
def test_a_store_that_is_not_there_ends_every_command_alike(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 3 and one sentence; and nothing is made of a name that somebody mistyped."""
    monkeypatch.chdir(tmp_path)
    words = command.format(day="2999-01-01").split()
    if "mute" in words:  # a mute ends within ninety days, and which day that is the clock says
        words[words.index("2999-01-01")] = _soon()
    assert gpuledger.main([*words, "--store", "none.duckdb"]) == WORLD
    assert capsys.readouterr().err.startswith("gpuledger: there is no store at none.duckdb")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("command", "code"), ASKED)
def test_a_server_ends_a_command_as_a_store_does(
    command: str, code: int, small: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that tells a slip from a failure must not need to know where the ledger is."""
    monkeypatch.setenv("GPULEDGER_TOKEN", TOKEN)
    try:
        ended = gpuledger.main([*command.split(), "--server", str(small.client.base_url)])
    except SystemExit as exit_:  # argparse has refused it, before anybody was asked
        ended = int(exit_.code or 0)
    assert ended == code, capsys.readouterr().err


@pytest.mark.parametrize("shown", ["", "gl_read_7fk3q2zx_nothing"])
def test_who_shows_no_key_is_told_who_makes_one(
    shown: str, small: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """401 alone is the end of the road for whoever has never heard of keys."""
    monkeypatch.setenv("GPULEDGER_TOKEN", shown)
    assert gpuledger.main(["report", "--server", str(small.client.base_url)]) == WORLD
    said = " ".join(capsys.readouterr().err.split())
    assert "answers 401" in said
    assert (
        "set GPULEDGER_TOKEN to a key; on the server, gpuledger admin access add --role read --name NAME creates one"
        in said
    )


def test_who_may_not_is_told_so(
    small: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """403 is no slip of the words: another key would do."""
    monkeypatch.setenv("GPULEDGER_TOKEN", add_key(small.registry, "writer"))
    assert gpuledger.main(["report", "--server", str(small.client.base_url)]) == WORLD
    assert "answers 403" in capsys.readouterr().err


def _soon() -> str:
    from datetime import UTC, datetime, timedelta

    return f"{datetime.now(UTC) + timedelta(days=9):%Y-%m-%d}"
