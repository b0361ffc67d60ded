"""What drivers and the kernel say is told in our words: no secret in it, its own cause, and settings refused first."""

import json
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuledger
from agent.log_format import JsonLine, TextLine, never_say, without_secrets
from collector.config import CollectorConfig
from collector.errors import ConfigError, ListenError, StoreError
from collector.http.server import listen
from collector.store.database import Store, lake_of
from tests.fleet.ports import free_ports

MARKER = "m4rk3r-pass/w@rd"
QUOTED = "m4rk3r-pass%2Fw%40rd"
PARTS = ("m4rk3r", "rd second", "w@rd", "w%40rd")


def addresses(port: int) -> list[str]:
    """Return the spellings of an address with a password, right ones and wrong ones."""
    where = f"host=127.0.0.1 port={port} dbname=l user=me"
    return [
        f"postgres:{where} password={MARKER}",
        f"postgres:{where} password='{MARKER} second'",
        f"postgres:{where} password = {MARKER}",
        f"postgres:postgresql://me:{QUOTED}@127.0.0.1:{port}/l",
        f"postgres:postgres://127.0.0.1:{port}/l?user=me&password={QUOTED}",
        f"postgres:{where} password={MARKER} second",
        f"postgres:{where} password='{MARKER}",
        f"postgresql://me:{QUOTED}@127.0.0.1:{port}/l",
        f"postgre:{where} password={MARKER}",
        f"{where} password={MARKER}",
    ]


@pytest.mark.parametrize("spelling", range(10))
def test_no_spelling_of_an_address_brings_its_password_into_a_message(
    spelling: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The catalogue is away, or its address is not one: DuckDB and libpq repeat what they were given."""
    (port,) = free_ports(1)
    address = addresses(port)[spelling]
    file = tmp_path / "gpuledger.toml"
    file.write_text(f'[collector]\nlake = {json.dumps(address)}\ndata = "{tmp_path}/data"\ndirect_url = "http://x:1"\n')
    store = tmp_path / "s.duckdb"
    for words in (
        ["serve", "--listen", "127.0.0.1:0", "--config", str(file), "--store", str(store)],
        ["report", "--store", str(store)],
        ["admin", "doctor", "--store", str(store)],
        ["admin", "access", "list", "--store", str(store)],
    ):
        assert gpuledger.main(words) in (2, 3)
        told = capfd.readouterr()
        assert not [part for part in PARTS if part in told.out + told.err], told.err
        assert told.err.count("\n") <= 2, told.err
    monkeypatch.setenv("GPULEDGER_COLLECTOR_LAKE", address)
    monkeypatch.setenv("GPULEDGER_COLLECTOR_S3_SECRET", MARKER)
    assert gpuledger.main(["report", "--store", str(store)]) in (2, 3)
    assert MARKER not in capfd.readouterr().err


PASSWORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="'\\\"&@:/%#?"), min_size=6)


@given(PASSWORDS, st.integers(0, 9))
def test_no_password_is_left_in_what_others_wrote(password: str, spelling: int) -> None:
    """Whatever it is made of, and before it is known as a secret of the settings."""
    told = addresses(5432)[spelling].replace(MARKER, password).replace(QUOTED, password)
    shown = without_secrets(f'IO Error: cannot connect to "{told}" today')
    assert "***" in shown
    assert password not in shown.replace(addresses(5432)[spelling].partition("password")[0], "")
    assert shown.endswith("today") or "='" in told  # a quote without its end is taken to the end


def test_the_log_has_no_secret_of_the_settings_in_it() -> None:
    """Neither in a message, nor in the traceback of what nobody caught."""
    CollectorConfig(s3_secret="a-secret-of-s3", tokens=("a-token-of-sixteen",))
    never_say("")
    try:
        raise OSError("a-secret-of-s3 and a-token-of-sixteen")
    except OSError:
        record = logging.LogRecord("n", logging.ERROR, "f", 1, "with %s", ("a-secret-of-s3",), sys.exc_info())
    for form in (TextLine(), JsonLine()):
        line = form.format(record)
        assert ("a-secret-of-s3" in line, "a-token-of-sixteen" in line, "with ***" in line) == (False, False, True)


@pytest.mark.parametrize(
    "setting",
    [
        {"s3_endpoint": "minio:9000"},
        {"s3_endpoint": "minio"},
        {"s3_endpoint": "https://me:hunter22@minio"},
        {"s3_endpoint": "https://minio/bucket"},
        {"s3_endpoint": "ftp://minio"},
        {"s3_endpoint": "https://"},
        {"data": "gs://bucket/x"},
        {"data": "https://minio/bucket"},
        {"data": "S3://bucket"},
        {"data": "s3://"},
        {"lake": "sqlite:/x"},
        {"lake": "postgres:", "data": "/x"},
        {"lake": "postgres:dbname=x"},
    ],
)
def test_a_place_that_is_none_is_refused_before_it_is_used(setting: dict[str, str]) -> None:
    """An endpoint without a scheme went to a public cloud, without TLS."""
    with pytest.raises(ConfigError) as told:
        CollectorConfig(**setting)  # type: ignore[arg-type]
    assert next(iter(setting)) in str(told.value) or "data" in str(told.value)
    assert "hunter22" not in str(told.value)


@pytest.mark.parametrize(
    "setting",
    [
        {"s3_endpoint": "http://127.0.0.1:9000"},
        {"s3_endpoint": "https://[::1]:9000/"},
        {"data": "s3://bucket"},
        {"data": "s3://bucket/a/b c=1"},
        {"data": "relative/folder"},
        {"lake": "postgres:dbname=l host='a b' password=''", "data": "/x"},
        {"lake": "postgres:postgresql://me@h1,h2:5433/l?target_session_attrs=read-write", "data": "/x"},
        {"lake": "none"},
    ],
)
def test_places_of_every_spelling_are_taken(setting: dict[str, str]) -> None:
    """What libpq and S3 read is not refused for its looks."""
    assert lake_of(CollectorConfig(**setting)) is not None or setting == {"lake": "none"}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("203.0.113.7:8470", "this host has no such address"),
        ("no-such-host.invalid:8470", "cannot listen on no-such-host.invalid:8470: "),
        ("taken", "another process listens there"),
    ],
)
def test_an_address_that_cannot_be_had_is_told_by_its_cause(address: str, words: str) -> None:
    """ "Is a collector already running there?" was said of addresses that are no interface's."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}" if address == "taken" else address
        from fastapi import FastAPI

        with pytest.raises(ListenError, match=words) as told:
            listen(FastAPI(), CollectorConfig(listen=at), "%s")
    assert ("already running" in str(told.value)) == (address == "taken")


def test_a_store_that_cannot_be_opened_is_told_by_its_cause(tmp_path: Path) -> None:
    """ "In use by process 0" helps nobody; nor does a traceback for a name that is too long."""
    (tmp_path / "sqlite").write_bytes(b"SQLite format 3\0" + bytes(8000))
    (tmp_path / "text").write_text("hello" * 2000)
    (tmp_path / "folder").mkdir()
    for name, words in (
        ("sqlite", "not a DuckDB file"),
        ("text", "not a DuckDB file"),
        ("folder", "Is a directory"),
        ("x" * 300, "File name too long"),
    ):
        for read_only in (True, False):
            with pytest.raises(StoreError, match=words):
                Store.open(tmp_path / name, read_only=read_only)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a PID namespace")
def test_a_holder_that_is_not_seen_is_not_process_0(tmp_path: Path) -> None:
    """In a container the holder outside has no number."""
    with Store.open(tmp_path / "s.duckdb"):
        code = (
            f"import sys, gpuledger; sys.exit(gpuledger.main(['admin', 'analyze', '--store', '{tmp_path}/s.duckdb']))"
        )
        away = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
        done = subprocess.run(away, capture_output=True, text=True, cwd=Path(gpuledger.__file__).parent, check=False)
    assert done.returncode == 3, done.stderr
    assert "process 0" not in done.stderr
    assert "in use by a process of another container or host" in done.stderr
