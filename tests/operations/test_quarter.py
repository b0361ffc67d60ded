"""A quarter through the real server, whose clock runs fast: what was closed says the same ever after.

The server, the mail and the commands run with a wall clock that a file moves (shifted_clock.c). It begins with a store
of an earlier release, whose own week closed long ago.
"""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import unified_diff
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest

from agent.wire.envelope import encode
from bench.aging.readings import MONTHLY, Asked, name_of, requests
from bench.aging.told import untold
from tests.agent.gpu.fake.build import compiler
from tests.analyzer.interfaces.mail_smtp import Mailbox, running
from tests.analyzer.ledger.fleet import DAY, HOUR, Row
from tests.collector.access.conftest import bearer
from tests.collector.serving import Answer, Client
from tests.fleet.ports import free_port
from tests.operations.test_migration import STORES, unpacked
from tests.waiting import until as until_within

ROOT = Path(__file__).parents[2]
BERLIN = ZoneInfo("Europe/Berlin")
WEEKS = [datetime.fromisocalendar(2026, 5 + number, 1).replace(tzinfo=BERLIN) for number in range(13)]
OLD_WEEK, OLD_HOURS = "2025-W46", 167  # those of which it was known that anything was owned
FINAL = {0: "2026-01", 4: "2026-02", 9: "2026-03"}  # after which weeks months are
RESTARTS = {4: signal.SIGTERM, 8: signal.SIGKILL, 12: signal.SIGTERM}
UPKEEP = (3, 7, 10, 12)  # after which weeks the upkeep is waited for; it looks every half minute
SHOWN_LINES = 12
CLOSED, FINAL_STATUS = '"status": "closed"', '"status": "final"'
CLOSED_AT = re.compile(r'"closed_at": (?:null|[0-9]+)')  # null until the month of it is final
PATIENCE_SECONDS = 600.0  # a bound, never waited out
# What is read again after every later week; reports too where samples have expired meanwhile, and after the last all.
FINANCE = ("charges json", "charges csv", "units json", "costs json")
REPORTS = (*FINANCE, "week json", "month json")
STREAMS = {"q1": "0c5f7a52-6f0e-4b0e-9a3a-0d5b6d0f3a11", "q2": "0c5f7a52-6f0e-4b0e-9a3a-0d5b6d0f3a12"}
SETTINGS = """
[analyzer]
site_url = "https://gpuledger.example"
timezone = "Europe/Berlin"
prices = "prices.toml"
[collector]
raw_days = 10
minute_days = 20
hour_days = 30
[mail]
sender = "gpuledger@example.com"
host = "127.0.0.1"
port = {port}
security = "none"
recipients = ["owners@example.com"]
"""
PRICES = """
[[price]]
sku = "H100-80GB"
purchase_option = "any"
usd_per_gpu_hour = 2.6
from = 2020-01-01
as_of = 2025-01-01
source = "invented"
"""

pytestmark = pytest.mark.soak
until = partial(until_within, seconds=PATIENCE_SECONDS)


@dataclass
class Site:
    """A site in a folder: its clock, its server, and what was read of each week and month when it closed."""

    folder: Path
    client: Client
    keys: dict[str, str] = field(default_factory=dict)
    closed: dict[str, dict[str, str]] = field(default_factory=dict)
    server: "subprocess.Popen[bytes] | None" = None
    sent: int = 0
    compared: Counter[str] = field(default_factory=Counter)

    @property
    def store(self) -> Path:
        """The hot file."""
        return self.folder / "store.duckdb"

    @property
    def environment(self) -> dict[str, str]:
        """What lets a process read its clock from the file."""
        clock = {"LD_PRELOAD": str(self.folder / "clock.so"), "SHIFTED_CLOCK": str(self.folder / "clock")}
        return os.environ | clock

    def goes_to(self, moment: datetime) -> int:
        """Set the clock, of a server that runs too, and return the moment in microseconds."""
        shift = round(moment.timestamp()) * 1_000_000_000 - time.time_ns()
        with (self.folder / "clock").open("r+b" if (self.folder / "clock").exists() else "wb", buffering=0) as clock:
            clock.write(struct.pack("=q", shift))
        return round(moment.timestamp()) * 1_000_000

    def command(self, *words: str) -> str:
        """Return what a command prints."""
        where = ["--config", str(self.folder / "gpuledger.toml")]
        done = subprocess.run(
            [sys.executable, "-m", "gpuledger", *words, *where],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def starts(self) -> None:
        """Start the server, and wait until it answers."""
        flags = ["--config", str(self.folder / "gpuledger.toml"), "--analyze-every", "20", "--seal-seconds", "1"]
        with (self.folder / "log").open("ab") as log:
            words = [sys.executable, "-m", "gpuledger", "serve", *flags]
            self.server = subprocess.Popen(words, cwd=ROOT, env=self.environment, stdout=log, stderr=log)
        until(self.answers, "the server answers", process=self.server, more=self.said)

    def ends(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End the server."""
        assert self.server is not None
        self.server.send_signal(by)
        self.server.wait(180)

    def said(self) -> str:
        """Return what the server wrote."""
        return (self.folder / "log").read_text()[-3000:]

    def answers(self) -> bool:
        """Whether the server is there."""
        try:
            return self.client.get("/healthz").status == 200
        except OSError:
            return False

    def get(self, path: str, **query: str) -> str:
        """Return what an address answers; one that says that it cannot now is asked again, which is counted."""
        address, key = f"{path}?{urlencode(query)}" if query else path, bearer(self.keys["read"])

        def answered() -> Answer | None:
            answer = self.client.get(address, key)
            self.compared["asked again, of 503"] += answer.status == 503
            return None if answer.status == 503 else answer

        answer = until(answered, f"an answer to {address}", process=self.server, more=self.said)
        assert answer.status == 200, (address, answer.text, self.said())
        return answer.text

    def tells(self, week: str, start: int, end: int) -> None:
        """Let both hosts tell of a week, every hour: one trains, one serves."""
        for node, stream in STREAMS.items():
            tables = {
                name: [dict(row, node=node) for row in rows] for name, rows in told(node, week, start, end).items()
            }
            self.sent += 1
            body = encode(agent=node, stream=stream, sequence=self.sent, sent_at=end + HOUR, tables=tables)
            answer = self.client.post(body, bearer(self.keys["writer"]))
            assert answer.status == 200, answer.text

    def speaks(self, moment: int) -> None:
        """Let both hosts say that they are there: without that nobody bears out a clock that was set by months."""
        for node, stream in STREAMS.items():
            self.sent += 1
            body = encode(agent=node, stream=stream, sequence=self.sent, sent_at=moment, tables={})
            assert self.client.post(body, bearer(self.keys["writer"])).status == 200

    def hours(self, period: str) -> Counter[str]:
        """Return how many hours of a day, a week or a month have each status."""
        answer = self.client.get(f"/v1/hours?since={period}&limit=500", bearer(self.keys["read"]))
        return Counter(one["status"] for one in json.loads(answer.text)["items"]) if answer.status == 200 else Counter()

    def is_told_as(self, period: str, *statuses: str) -> bool:
        """Whether the hours of a day, a week or a month are there, and all have one of these statuses."""
        hours = self.hours(period)
        return bool(hours) and hours.keys() <= set(statuses)

    def is_kept_up(self, now: int) -> bool:
        """Whether rolling up, and after it retention, have gone well since a moment."""
        wanted = {"roll_up", "retention"}
        for line in self.get("/metrics").splitlines():
            if line.startswith("gpuledger_upkeep_last_success_timestamp_seconds{") and (
                float(line.split()[-1]) * 1e6 >= now
            ):
                wanted.discard(line.split('"')[1])
        return not wanted

    def readings(self, label: str, only: Collection[str] = ()) -> dict[str, str]:
        """Return every reading of a week or a month, or some of them; a text is what its JSON is."""
        is_week = "W" in label
        asked = Asked(label, label, 0, (trained(label),) if is_week and label != OLD_WEEK else (), ())
        found = {}
        for one in requests(asked):
            of_it = one.since == label and not (is_week and one.what in MONTHLY)
            if (of_it or one.what == "run") and one.format != "text" and (not only or name_of(one) in only):
                found[name_of(one)] = self.get("/v1/read", **one.query())
        return found

    def files(self, month: str) -> dict[str, str]:
        """Return what finance is sent of a month: a bill in FOCUS, and the ledger's rows."""
        found = {}
        for form in ("focus", "csv"):
            out = self.folder / f"{form}.csv"
            self.command("bill", form, "--month", month, "--out", str(out))
            found[f"export {form}"] = out.read_text()
        return found

    def changed(self, only: Collection[str] = ()) -> list[str]:
        """Return the lines that say another thing now than when their week or month closed, without saying why."""
        found: list[str] = []
        for label, before in self.closed.items():
            now = self.readings(label, only)
            for name in now:
                if closed_until_now(before[name], now[name]):
                    before[name] = made_final(before[name], now[name])
            differ = untold(before, now)
            if not only and label in FINAL.values():
                now |= self.files(label)
                differ += [name for name in ("export focus", "export csv") if now[name] != before[name]]
            self.compared.update(name.replace(f" {trained(label)}", "") for name in now)
            for name in differ:
                was, says = (each[name].replace(',"', ',\n"').split("\n") for each in (before, now))
                lines = unified_diff(was, says, n=0)
                found += [f"{label} {name}", *islice(lines, 2, SHOWN_LINES)]
        return found


def closed_until_now(before: str, now: str) -> bool:
    """Whether a reading was of a closed week, and is of a final one: its month has become final since."""
    return CLOSED in before and FINAL_STATUS in now


def made_final(before: str, now: str) -> str:
    """Return the reading of a closed week as it has to be once the week is final: since when, and else the same."""
    before = before.replace(CLOSED, FINAL_STATUS)
    since = CLOSED_AT.search(now)
    return before if since is None else CLOSED_AT.sub(since.group(), before)


def trained(week: str) -> str:
    """Return the run that trains in a week."""
    return f"slurm/alpha/{week.replace('-W', '')}"


def told(node: str, week: str, start: int, end: int) -> dict[str, list[Row]]:
    """Return what a host tells of a week."""
    hours = [{"started_at": at, "ended_at": at + HOUR} for at in range(start, end, HOUR)]
    run = trained(week) if node == "q1" else "kubernetes/prod/chat"
    gpu = {"gpu_uuid": f"GPU-{node}", "up": True, "utilization_ratio": 0.9, "sm_active_ratio": 0.7}
    rows: dict[str, list[Row]] = {
        "ownership": [{"gpu_uuid": f"GPU-{node}", "owned_from": start, "sku": "H100-80GB"}],
        "allocations": [
            {"run_id": run, "gpu_uuid": f"GPU-{node}", "started_at": start, "ended_at": end, "scheduler": "slurm"}
            | {"name": "train" if node == "q1" else "chat", "account": "nlp", "attempt": start // DAY}
        ],
        "gpu_samples": [hour | gpu | {"energy_joules": 10**6 + number} for number, hour in enumerate(hours)],
    }
    if node == "q1":
        steps = [{"run_id": run, "steps": 10 + number, "tokens": 1_000 * number} for number in range(len(hours))]
        return rows | {"progress": [hour | said for hour, said in zip(hours, steps, strict=True)]}
    said = {"run_id": run, "engine": "vllm", "slo_seconds": 0.2, "first_token_seconds_p99": 0.1}
    return rows | {
        "service_samples": [hour | said | {"requests": 100 + n, "tokens_out": 7 * n} for n, hour in enumerate(hours)]
    }


@pytest.fixture
def mailbox() -> Mailbox:
    """What is mailed."""
    return Mailbox()


@pytest.fixture
def site(tmp_path: Path, mailbox: Mailbox) -> Iterator[Site]:
    """Yield a site whose store is an earlier release's, before the quarter begins."""
    gcc = compiler()
    if gcc is None:
        pytest.skip("no C compiler: apt-get install gcc libc6-dev")
    source = Path(__file__).with_name("shifted_clock.c")
    flags = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror")
    subprocess.run([gcc, *flags, "-o", tmp_path / "clock.so", source], check=True)
    client = Client(free_port())
    with running(mailbox, None, asks=False) as port:
        path = unpacked(STORES[-1], tmp_path)
        settings = SETTINGS.format(port=port).replace(
            "[collector]", f'[collector]\nstore = "{path}"\nlisten = "127.0.0.1:{client.port}"'
        )
        (tmp_path / "gpuledger.toml").write_text(settings)
        (tmp_path / "prices.toml").write_text(PRICES)
        site = Site(tmp_path, client)
        site.goes_to(WEEKS[0])
        for role, lasts in (("read", "never"), ("writer", "never"), ("brief", "30d")):
            made = ("admin", "access", "add", "--role", "read" if role == "brief" else role, "--name", role)
            site.keys[role] = site.command(*made, "--expires", lasts).splitlines()[-1]
        site.starts()
        try:
            yield site
        finally:
            if site.server is not None and site.server.poll() is None:
                site.ends()


def week_plays(site: Site, number: int) -> None:
    """Let a week come to its end, be booked, closed, read and mailed."""
    monday, ended = WEEKS[number], datetime.fromisocalendar(2026, 6 + number, 1).replace(tzinfo=BERLIN)
    week = f"2026-W{monday.isocalendar().week:02}"
    start, end = (round(one.timestamp()) * 1_000_000 for one in (monday, ended))
    hours = (end - start) // HOUR
    assert hours == (167 if week == "2026-W13" else 168), "clocks change on 29 March"
    site.goes_to(ended.replace(hour=2))
    site.tells(week, start, end)
    sunday = str((ended - timedelta(days=1)).date())  # asked again and again, where a week is seven times as much
    until(lambda: sum(site.hours(sunday).values()) == hours - 6 * 24, f"{week} is booked", more=site.said)
    assert sum(site.hours(week).values()) == hours
    if OLD_WEEK not in site.closed:
        until(lambda: site.hours(OLD_WEEK) == {"final": OLD_HOURS}, f"{OLD_WEEK} is booked", more=site.said)
        site.closed[OLD_WEEK] = site.readings(OLD_WEEK)
    now = site.goes_to(ended.replace(day=ended.day, hour=2) + timedelta(days=2))
    site.speaks(now)
    until(lambda: site.is_told_as(sunday, "closed", "final"), f"{week} is closed", more=site.said)
    assert site.is_told_as(week, "closed", "final")
    site.closed[week] = site.readings(week)
    site.command("report", week, "--mail", "--store", str(site.store))
    if month := FINAL.get(number):
        until(lambda: site.hours(month).keys() == {"final"}, f"{month} is final", more=site.said)
        site.closed[month] = site.readings(month) | site.files(month)
    if number in RESTARTS:
        site.ends(RESTARTS[number])
        site.starts()
    if number in UPKEEP:
        until(lambda: site.is_kept_up(now), "the upkeep has done its work", more=site.said)
    changed = site.changed(REPORTS if number in UPKEEP else FINANCE)
    assert not changed, "\n".join([week, *changed])


def test_what_was_closed_stays_what_it_was_for_a_quarter(
    site: Site, mailbox: Mailbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weeks close, mails go, samples and tiers expire, months are final, a key ends, a clock changes, restarts."""
    site.speaks(round(WEEKS[0].timestamp()) * 1_000_000)
    until(lambda: site.hours(OLD_WEEK) == {"final": 4}, "the earlier release's week is there", more=site.said)
    (charges,) = site.readings(OLD_WEEK, ("charges json",)).values()
    assert '"status": "open"' in charges, "what was owned after its telemetry is still to be booked"
    assert site.client.get("/v1/hours", bearer(site.keys["brief"])).status == 200
    for number in range(len(WEEKS)):
        week_plays(site, number)
    assert site.client.get("/v1/hours", bearer(site.keys["brief"])).status == 401
    assert len(mailbox.got) == len(WEEKS)
    assert {status for label in site.closed for status in site.hours(label)} == {"closed", "final"}
    changed = site.changed()
    assert not changed, "\n".join(changed)
    with capsys.disabled():
        kinds = ", ".join(f"{name} {times}" for name, times in sorted(site.compared.items()))
        print(f"\n{len(site.closed)} weeks and months, compared again: {kinds}")
