"""Accounting as sites have it, made up with its truth: odd names, states, clocks and numbers; as text and as JSON."""

import json
import random
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from tests.collector.schedulers import modern

EPOCH = 1_792_800_000  # 2026-10-24 00:00 UTC: the last day of summer time in Europe
BERLIN = ZoneInfo("Europe/Berlin")
COLUMNS = ["JobID", "JobName", "User", "Account", "State", "Submit", "Start", "End", "TimelimitRaw", "NodeList"]
NAMES = (
    "train",
    "lr=0.1|wd=2",
    "|",
    "two\nlines",
    "x\x85y",
    "a\u2028b",
    "ü|\n|z",
    "7|COMPLETED",
    "",
    "a\x0bb",
    " ",
    "\x1c",
)
ENDED = ("COMPLETED", "FAILED", "CANCELLED by 1000", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL")
TRES = {
    4: ("billing=4,cpu=8,gres/gpu=4", "cpu=8,gres/gpu:h100=4", "gres/gpu:h100=4,gres/gpu=4", "gres/gpu=4,gres/shard=0"),
    0: ("cpu=1,gres/gpu:a100_1g.5gb=1,gres/gpu=1", "gres/gpu:1g.10gb+me=2,gres/gpu=2", "cpu=2,gres/shard=3"),
    -1: ("cpu=8,mem=4G,node=1", "", "gres/gpu=0", "cpu=1,gres/gpumem=0,gres/gpuutil=0"),
}


@dataclass(frozen=True)
class Record:
    """One row of accounting; times are seconds UTC, `gpus` is -1 where it is about none."""

    number: int
    name: str
    user: str
    state: str
    submitted: int
    started: int
    ended: int
    host: str
    gpus: int
    tres: str

    @property
    def holding(self) -> tuple[str, str, int, int, int]:
        """Who held how many GPUs of which host from when until when."""
        return self.user, self.host, self.gpus, self.started, self.ended


def month(seed: int) -> list[Record]:
    """Return records of a few hosts; no two of one host at a time. Numbers come again for others."""
    choose = random.Random(seed)
    found: list[Record] = []
    for host in ("g1", "g2", "g3"):
        now = EPOCH + choose.randrange(0, 3600)
        while now < EPOCH + 60 * 3600 and len(found) < 40:
            lasts = choose.choice((61, 600, 3600, 5 * 3600))
            gpus = choose.choice((4, 4, 4, 0, -1))
            number = choose.randrange(100, 130)
            user = choose.choice(("ann", "bob", "cid"))
            found.append(
                Record(
                    number,
                    choose.choice(NAMES),
                    user,
                    choose.choice(ENDED),
                    now - choose.choice((0, 1, 1800)),
                    now,
                    now + lasts,
                    host,
                    gpus,
                    choose.choice(TRES[gpus]),
                )
            )
            now += lasts + choose.choice((1, 60, 7200))
    return found


def wall(seconds: int, zone: ZoneInfo | None) -> str:
    """Return a time as sacct prints it: local, or seconds of the epoch."""
    return str(seconds) if zone is None else datetime.fromtimestamp(seconds, zone).strftime("%Y-%m-%dT%H:%M:%S")


def as_text(records: list[Record], columns: list[str], zone: ZoneInfo | None = None) -> str:
    """Return what `sacct -P` prints, with these columns in this order."""
    lines = ["|".join(columns)]
    for one in records:
        fields = {
            "JobID": str(one.number),
            "JobIDRaw": str(one.number),
            "JobName": one.name,
            "User": one.user,
            "Account": "a" + one.user,
            "State": one.state,
            "Submit": wall(one.submitted, zone),
            "Start": wall(one.started, zone),
            "End": wall(one.ended, zone),
            "ElapsedRaw": str(one.ended - one.started),
            "TimelimitRaw": "600",
            "NodeList": one.host,
            "AllocTRES": one.tres,
            "Partition": "gpu",
        }
        lines.append("|".join(fields[column] for column in columns))
    return "\n".join(lines) + "\n"


def as_json(records: list[Record]) -> dict[str, Any]:
    """Return what `sacct --json` of 22.05 prints."""
    return {"jobs": [_json(one) for one in records]}


def as_rest(records: list[Record]) -> dict[str, Any]:
    """Return what slurmdbd answers by slurmrestd: newer types, and what it says of itself."""
    return modern.sacct(as_json(records)) | {
        "meta": {"plugin": {"type": "openapi/slurmdbd"}},
        "errors": [],
        "warnings": [],
    }


def _json(one: Record) -> dict[str, Any]:
    listed = []
    for part in filter(None, one.tres.split(",")):
        kind, _, count = part.partition("=")
        type_, _, name = kind.partition("/")
        listed.append(
            {"type": type_, "name": name or None, "id": 1, "count": int(count) if count.isdecimal() else 4096}
        )
    return {
        "job_id": one.number,
        "name": one.name,
        "user": one.user,
        "account": "a" + one.user,
        "partition": "gpu",
        "array": {"job_id": 0, "task_id": None},
        "het": {"job_id": 0, "job_offset": None},
        "state": {"current": one.state.split(" ")[0], "reason": "None"},
        "time": {"submission": one.submitted, "start": one.started, "end": one.ended, "limit": 600},
        "nodes": one.host,
        "tres": {"allocated": listed, "requested": []},
        "priority": 1,
        "wckey": {"wckey": "", "flags": []},
        "reservation": {"id": 0, "name": 0},
        "exit_code": {"status": "SUCCESS", "return_code": 0},
    }


def written(document: dict[str, Any]) -> str:
    """Return a document as a command prints it."""
    return json.dumps(document)
