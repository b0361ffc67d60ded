"""Jobs from the text of scontrol and sacct, for clusters without the JSON plugin. Times are seconds of the epoch."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from collector.errors import SchedulerError
from collector.schedulers.slurm import gres, hostlist
from collector.schedulers.slurm.fields import (
    UNLIMITED_MINUTES,
    limit_seconds,
    microseconds,
    number,
    text,
    whole_number,
    words,
)
from collector.schedulers.slurm.job import Job, phase_of

# The name stands last: it may hold whatever separates the others.
SACCT_FIELDS = (
    "JobID,JobIDRaw,State,User,Account,Partition,QOS,Priority,TimelimitRaw,Submit,Start,End,NodeList,ReqTRES,AllocTRES,"
    "WCKey,JobName"
)
HISTORY_FIELDS = f"Cluster,{SACCT_FIELDS}"
_NEEDED = ("JobID", "State", "Start", "End", "NodeList", "AllocTRES")
_TIMES = ("Submit", "Start", "End")
_ID = re.compile(r"(?P<whole>\d+)(?:_(?P<task>\d+)|_\[(?P<waiting>[^\]]*)\]|\+(?P<offset>\d+))?")
_SETTING = re.compile(r"([A-Za-z][\w:/.]*)=(\S*)")
_USER = re.compile(r"(.+)\(\d+\)")
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_OWN_LINES = ("JobId=", "HetJobId=", "Command=", "WorkDir=", "Comment=", "AdminComment=", "SystemComment=", "Std")


def jobs_of_show(said: bytes) -> list[Job]:
    """Return the jobs of `scontrol -d show job`, a paragraph each; a paragraph that is none is passed over.

    Each of the fields that a user may fill with any text has a line of its own there, which is why this form is read
    and not the one with a line a job.
    """
    paragraphs = re.split(r"\n\s*\n", said.decode("utf-8", "replace"))
    return [job for paragraph in paragraphs if (job := _shown(paragraph)) is not None]


def accounted(said: bytes, fields: str = SACCT_FIELDS) -> list[Job]:
    """Return the jobs of `sacct -P -X -n` with these fields; a line that is none is passed over."""
    return _of_lines(fields.split(","), said.decode("utf-8", "replace").splitlines(), None)


def titled(said: bytes, zone: ZoneInfo | None) -> list[Job]:
    """Return the jobs of a file that `sacct -P -X` has printed, its first line naming the fields.

    Raises:
        SchedulerError: fields are missing, or times have no zone and nobody says which.
    """
    head, *lines = said.decode("utf-8", "replace").splitlines() or [""]
    names = {name.lower(): name for name in HISTORY_FIELDS.split(",")}
    columns = [names.get(column.strip().lower(), column) for column in head.split("|")]
    if missing := [name for name in _NEEDED if name not in columns]:
        raise SchedulerError(f"its first line does not name {', '.join(missing)}; {_MADE_BY}")
    return _of_lines(columns, lines, zone)


_MADE_BY = f"make it with: SLURM_TIME_FORMAT=%s sacct -a -X -D -P -S TIME --format={HISTORY_FIELDS}"


def _of_lines(columns: list[str], lines: list[str], zone: ZoneInfo | None) -> list[Job]:
    records = (line.split("|", len(columns) - 1) for line in lines)
    blank = dict.fromkeys(HISTORY_FIELDS.split(","), "")
    named = (dict(zip(columns, parts, strict=True)) for parts in records if len(parts) == len(columns))
    found = (_accounted(blank | _in_seconds(record, zone)) for record in named)
    return [job for job in found if job is not None]


def _in_seconds(record: dict[str, str], zone: ZoneInfo | None) -> dict[str, str]:
    """Return the record with times as seconds of the epoch; sacct writes local time where it is not told otherwise."""
    return record | {name: _seconds(record[name], zone) for name in _TIMES if "T" in record.get(name, "")}


def _seconds(value: str, zone: ZoneInfo | None) -> str:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    if moment.tzinfo is None and zone is None:
        raise SchedulerError(
            f"its times, as {value}, have no zone: say --timezone, such as Europe/Berlin, or {_MADE_BY}"
        )
    return str(int((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()))


def _shown(paragraph: str) -> Job | None:
    lines = [line.strip() for line in paragraph.strip().splitlines()]
    name, fields = _heading(lines)
    fields |= dict(_settings(lines))
    raw_id, (phase, state) = whole_number(fields.get("JobId")), phase_of(words(fields.get("JobState")))
    if raw_id is None:
        return None
    listed = text(fields.get("NodeList"))
    nodes = hostlist.names(listed) if listed else ()
    begun = phase != "waiting" and bool(nodes)
    task = fields.get("ArrayTaskId", "")
    user = _USER.fullmatch(fields.get("UserId", ""))
    return Job(
        raw_id=raw_id,
        phase=phase,
        state=state,
        array_id=whole_number(fields.get("ArrayJobId")),
        task_id=whole_number(task),
        waiting_tasks=text(task) if whole_number(task) is None else None,
        het_id=whole_number(fields.get("HetJobId")),
        het_offset=whole_number(fields.get("HetJobOffset")),
        restarts=whole_number(fields.get("Restarts")),
        user=user[1] if user else None,
        account=text(fields.get("Account")),
        name=text(name),
        partition=text(fields.get("Partition")),
        qos=text(fields.get("QOS")),
        reservation=text(fields.get("Reservation")),
        project=text(fields.get("WCKey", "").lstrip("*")),
        dependency=text(fields.get("Dependency")),
        reason=text(fields.get("Reason")),
        priority=number(fields.get("Priority")),
        time_limit_seconds=_limit(fields.get("TimeLimit", "")),
        submitted_at=microseconds(fields.get("SubmitTime")),
        started_at=microseconds(fields.get("StartTime")) if begun else None,
        ended_at=microseconds(fields.get("EndTime")) if phase == "ended" else None,
        requested_gpus=gres.gpus(fields.get("ReqTRES") or fields.get("TRES", "")),
        allocated_gpus=gres.gpus(fields.get("AllocTRES") or fields.get("TRES", "")) if begun else None,
        nodes=nodes,
        gpus=_held(lines, nodes),
    )


def _heading(lines: list[str]) -> tuple[str, dict[str, str]]:
    """Return the name, and what stands before it on its line."""
    fields: dict[str, str] = {}
    for line in lines[:2]:  # a heterogeneous job's own ids stand on a line before or on the same
        before, found, name = line.partition("JobName=")
        fields |= dict(_SETTING.findall(before))
        if found:
            return name, fields
    return "", fields


def _settings(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if not line.startswith(_OWN_LINES):
            yield from _SETTING.findall(line)


def _held(lines: list[str], nodes: tuple[str, ...]) -> tuple[tuple[int, ...] | None, ...]:
    held: dict[str, tuple[int, ...] | None] = {}
    for line in lines:
        if line.startswith("Nodes="):
            fields = dict(_SETTING.findall(line))
            held.update(dict.fromkeys(hostlist.names(fields["Nodes"]), gres.indices(fields.get("GRES", ""))))
    return tuple(held.get(node) for node in nodes)


def _limit(value: str) -> float | None:
    """Return a limit like 1-02:03:04 or 10:00 in seconds."""
    found = _TIME.fullmatch(value)
    if found is None:
        return None
    days, hours, minutes, seconds = (int((part or "0")[:9]) for part in found.groups())
    limit = ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds
    return limit if limit < UNLIMITED_MINUTES * 60 else None


def _accounted(record: Mapping[str, str]) -> Job | None:
    found, raw_id = _ID.fullmatch(record["JobID"]), whole_number(record["JobIDRaw"].split("_", 1)[0])
    if found is None:
        return None
    raw_id = raw_id or int(found["whole"])
    phase, state = phase_of(words(record["State"]))
    listed = text(record["NodeList"])
    nodes = hostlist.names(listed) if listed else ()
    is_array = found["task"] is not None or found["waiting"] is not None
    return Job(
        raw_id=raw_id,
        phase=phase,
        state=state,
        cluster=text(record["Cluster"]),
        array_id=whole_number(found["whole"]) if is_array else None,
        task_id=whole_number(found["task"]),
        waiting_tasks=found["waiting"],
        het_id=whole_number(found["whole"]) if found["offset"] else None,
        het_offset=whole_number(found["offset"]),
        user=text(record["User"]),
        account=text(record["Account"]),
        name=text(record["JobName"]),
        partition=text(record["Partition"]),
        qos=text(record["QOS"]),
        project=text(record["WCKey"].lstrip("*")),
        priority=number(record["Priority"]),
        time_limit_seconds=limit_seconds(record["TimelimitRaw"]),
        submitted_at=microseconds(record["Submit"]),
        started_at=microseconds(record["Start"]) if phase != "waiting" and nodes else None,
        ended_at=microseconds(record["End"]) if phase == "ended" else None,
        requested_gpus=gres.gpus(record["ReqTRES"]),
        allocated_gpus=gres.gpus(record["AllocTRES"]),
        nodes=nodes,
        gpus=(None,) * len(nodes),
    )
