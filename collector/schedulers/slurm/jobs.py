"""One job, one task of an array or one part of a heterogeneous job: the same whichever command told it.

It is read of the JSON of squeue and sacct where this release has it, else of the text of scontrol and sacct. Times in
text are seconds of the epoch.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Literal
from zoneinfo import ZoneInfo

from collector.errors import SchedulerError
from collector.schedulers.slurm.fields import (
    clock_limit,
    gpu_indices,
    gpus_in,
    host_names,
    limit_seconds,
    microseconds,
    number,
    text,
    tres_text,
    whole_number,
    words,
)
from collector.schedulers.slurm.rows import (
    RowCount,
    RowReader,
    consistent,
    decoded,
    in_order,
    lines_of,
    moments,
    titled_rows,
)

_MOST_JOBS = 500_000  # of one answer
# The name stands last: it may hold whatever separates the others.
SACCT_FIELDS = (
    "JobID,JobIDRaw,State,User,Account,Partition,QOS,Priority,TimelimitRaw,Submit,Start,End,NodeList,ReqTRES,AllocTRES,"
    "WCKey,JobName"
)
HISTORY_FIELDS = f"Cluster,{SACCT_FIELDS}"
_NEEDED = ("jobid", "state", "start", "end", "nodelist", "alloctres")
_TIMES = ("Submit", "Start", "End")
# 81234.batch, 81234_7.0: within a job that has a row of its own. 8.1234E+11 is what a sheet makes of a job's number.
_STEP = re.compile(r"\d\S*\.(?!\d+[Ee]\+)\S+")
_STATE = re.compile(r"[A-Z][A-Z_]*\+?(?: by \S+)?")
_OF_GPUS = re.compile(r"(?:^|,)(?:gres[/:])?gpu(?=[:=,]|$)(?!=0(?:,|$))")
_TRES = re.compile(r"|[A-Za-z][^=,\s]*(?:=[^=,\s]*)?(?:,[A-Za-z][^=,\s]*(?:=[^=,\s]*)?)*")
_ID = re.compile(r"(?P<whole>\d+)(?:_(?P<task>\d+)|_\[(?P<waiting>[^\]]*)\]|\+(?P<offset>\d+))?")
_SETTING = re.compile(r"([A-Za-z][\w:/.]*)=(\S*)")
_USER = re.compile(r"(.+)\(\d+\)")
_OWN_LINES = ("JobId=", "HetJobId=", "Command=", "WorkDir=", "Comment=", "AdminComment=", "SystemComment=", "Std")

# How a job ended, in the contract's words. A requeued attempt was stopped by somebody's word, and accuses nobody.
ENDINGS: dict[str, str] = {
    "BOOT_FAIL": "node_failed",
    "CANCELLED": "cancelled",
    "COMPLETED": "completed",
    "DEADLINE": "timeout",
    "FAILED": "failed",
    "NODE_FAIL": "node_failed",
    "OUT_OF_MEMORY": "out_of_memory",
    "PREEMPTED": "preempted",
    "REQUEUED": "cancelled",
    "REVOKED": "cancelled",
    "TIMEOUT": "timeout",
}
_HOLDING = frozenset(
    {"RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT"}
)
_Phase = Literal["waiting", "holding", "ended"]


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of a job. Times are microseconds UTC; None is what this command does not say.

    `gpus` holds, for each of `nodes`, which of its GPUs it has, by Slurm's number, or None where that is not said.
    """

    raw_id: int  # the number that cgroups and SLURM_JOB_ID bear
    phase: _Phase
    state: str
    cluster: str | None = field(default=None, compare=False)  # as Slurm calls it
    array_id: int | None = None
    task_id: int | None = None
    waiting_tasks: str | None = None  # of an array, those that have no number of their own yet: "5-99%4"
    het_id: int | None = None
    het_offset: int | None = None
    restarts: int | None = None
    user: str | None = None
    account: str | None = None
    name: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    project: str | None = None
    dependency: str | None = None
    reason: str | None = None
    priority: float | None = None
    time_limit_seconds: float | None = None
    submitted_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    requested_gpus: int | None = None
    allocated_gpus: int | None = None
    nodes: tuple[str, ...] = ()
    gpus: tuple[tuple[int, ...] | None, ...] = ()

    @property
    def id(self) -> str:
        """The id as people write it: 81234, 81234_7 of an array, 81234+1 of a heterogeneous job."""
        if self.array_id is not None:
            return str(self.array_id) if self.task_id is None else f"{self.array_id}_{self.task_id}"
        return str(self.raw_id) if self.het_id is None else f"{self.het_id}+{self.het_offset or 0}"

    @property
    def parent_id(self) -> str | None:
        """The array or heterogeneous job that this is a part of."""
        whole = self.array_id if self.task_id is not None else self.het_id
        return None if whole is None else str(whole)

    @property
    def exit_status(self) -> str | None:
        """How it ended, in the contract's words."""
        return ENDINGS.get(self.state) if self.phase == "ended" else None

    @property
    def uses_gpus(self) -> bool:
        """Whether it asks for GPUs or for parts of them; other jobs are none of the ledger's."""
        return self.requested_gpus is not None or self.allocated_gpus is not None


def phase_of(states: tuple[str, ...]) -> tuple[_Phase, str]:
    """Return where a job stands in the queue, and the one word that says it, from its state and flags.

    What is completing has ended for its owner, but its GPUs are given back only when the epilog has run.
    """
    held = [word for word in states if word in _HOLDING]
    if held:
        return "holding", held[0]
    waits = [word for word in states if word == "PENDING"]
    ended = [word for word in states if word in ENDINGS]
    if waits or not ended:
        return "waiting", "PENDING" if waits else next(iter(states), "UNKNOWN")
    return "ended", ended[0]


def _nodes(value: object) -> tuple[str, ...]:
    listed = text(value)
    return host_names(listed) if listed else ()


# The fields of a job, how each is read, and under which name each form has it: the JSON of squeue and of sacct (with a
# dot what lies within), the text of scontrol and that of sacct. What a form says in another way, its reader hands over.
_SOURCES: tuple[tuple[str, Callable[[object], object], str, str, str, str], ...] = (
    ("states", words, "job_state", "state.current", "JobState", "State"),
    ("cluster", text, "cluster", "cluster", "", "Cluster"),
    ("array_id", whole_number, "array_job_id", "array.job_id", "ArrayJobId", ""),
    ("task_id", whole_number, "array_task_id", "array.task_id", "ArrayTaskId", ""),
    ("waiting_tasks", text, "array_task_string", "array.task", "", ""),
    ("het_id", whole_number, "het_job_id", "het.job_id", "HetJobId", ""),
    ("het_offset", whole_number, "het_job_offset", "het.job_offset", "HetJobOffset", ""),
    ("restarts", whole_number, "restart_cnt", "restart_cnt", "Restarts", "Restarts"),
    ("user", text, "user_name", "user", "", "User"),
    ("account", text, "account", "account", "Account", "Account"),
    ("name", text, "name", "name", "", "JobName"),
    ("partition", text, "partition", "partition", "Partition", "Partition"),
    ("qos", text, "qos", "qos", "QOS", "QOS"),
    ("reservation", text, "resv_name", "reservation.name", "Reservation", ""),
    ("project", text, "wckey", "wckey.wckey", "WCKey", "WCKey"),
    ("dependency", text, "dependency", "", "Dependency", ""),
    ("reason", text, "state_reason", "", "Reason", ""),
    ("priority", number, "priority", "priority", "Priority", "Priority"),
    ("time_limit_seconds", limit_seconds, "time_limit", "time.limit", "", "TimelimitRaw"),
    ("submitted_at", microseconds, "submit_time", "time.submission", "SubmitTime", "Submit"),
    ("started_at", microseconds, "start_time", "time.start", "StartTime", "Start"),
    ("ended_at", microseconds, "end_time", "time.end", "EndTime", "End"),
    ("requested_gpus", gpus_in, "tres_req_str", "tres.requested", "ReqTRES", "ReqTRES"),
    ("allocated_gpus", gpus_in, "tres_alloc_str", "tres.allocated", "AllocTRES", "AllocTRES"),
    ("nodes", _nodes, "nodes", "nodes", "NodeList", "NodeList"),
)
_SQUEUE, _SACCT, _SCONTROL, _SACCT_TEXT = range(4)
# By form what it says, and what of the others is known without it.
_SAID = [[(field, read, names[form]) for field, read, *names in _SOURCES if names[form]] for form in range(4)]
_UNSAID = [{field: read(None) for field, read, *names in _SOURCES if not names[form]} for form in range(4)]
_GpusHeld = tuple[tuple[int, ...] | None, ...]


def _job(
    raw_id: int,
    record: Mapping[str, object],
    form: int,
    gpus: Callable[[tuple[str, ...]], _GpusHeld] = lambda nodes: (None,) * len(nodes),
    **own: object,
) -> Job:
    """Return the job of a record of a form; `gpus` says which it has on its nodes, `own` what the table does not.

    The start of a job that waits is a forecast, and so, in the queue, is what it has been allocated.
    """
    found: dict[str, Any] = _UNSAID[form] | {field: read(record.get(name)) for field, read, name in _SAID[form]} | own
    states = found.pop("states")
    phase, state = phase_of(states)
    if form in (_SACCT, _SACCT_TEXT):
        phase, state = _accounted_phase(phase, state, states, found)
    for whole, part in (("array_id", "task_id"), ("het_id", "het_offset")):
        if form in (_SQUEUE, _SACCT) and not found[whole]:  # JSON has 0 for a job that is no part
            found[whole] = found[part] = None
    if phase == "waiting" or not found["nodes"]:
        found["started_at"] = None
        if form in (_SQUEUE, _SCONTROL):
            found["allocated_gpus"] = None
    if phase != "ended":
        found["ended_at"] = None
    return Job(raw_id=raw_id, phase=phase, state=state, gpus=gpus(found["nodes"]), **found)


def _accounted_phase(
    phase: _Phase, state: str, states: tuple[str, ...], found: Mapping[str, Any]
) -> tuple[_Phase, str]:
    """Return where a job of accounting stands: a record that has an end has ended, whatever its word is.

    So has that of a job that was resized, whose other hosts have a record of their own. What has begun and has a word
    that is not known holds its GPUs until it is known better.

    Raises:
        SchedulerError: it ends before it starts, or has held GPUs and does not say where or since when.
    """
    started, ended = found["started_at"], found["ended_at"]
    if not in_order(started, ended):
        raise SchedulerError("it ends before it starts")
    if found["allocated_gpus"] is not None and started != ended:
        if ended is not None and started is None and found["nodes"]:
            raise SchedulerError("it has had GPUs and does not say since when")
        if started is not None and not found["nodes"]:
            raise SchedulerError("it has had GPUs and does not say on which hosts")
    if found["ended_at"] is not None:
        return "ended", next((word for word in states if word in ENDINGS), state)
    return ("holding" if phase == "waiting" and "PENDING" not in states and found["started_at"] else phase), state


def queued_in_json(said: bytes) -> list[Job]:
    """Return the jobs of `squeue --json`, of releases 21.08 to 25.11: those that wait, hold, and have lately ended.

    Raises:
        SchedulerError: it is not the JSON of squeue.
    """
    numbered = ((whole_number(one.get("job_id")), one) for one in _records(said, "squeue") if isinstance(one, Mapping))
    return [_queued(raw_id, record) for raw_id, record in numbered if raw_id is not None]


def accounted_in_json(said: bytes, count: RowCount | None = None) -> list[Job]:
    """Return the jobs of `sacct --json`, of the same releases; accounting knows no GPU by its number.

    Raises:
        SchedulerError: it is not the JSON of sacct.
    """
    return _each(_records(said, "sacct"), _accounted, count)


def printed_jobs(said: str, count: RowCount) -> tuple[list[Job] | None, list[Job]]:
    """Return the jobs of a file that squeue or sacct printed with --json, or slurmrestd answered: the queue's (None: it
    is not the queue's), and accounting's.

    Raises:
        SchedulerError: it is the JSON of neither, or too long to be read at once.
    """
    records = _records(said, "the file's command")
    if any("job_state" in record for record in records if isinstance(record, Mapping)):
        return _each(records, _queued, count), []
    return None, _each(records, _accounted, count)


def document(said: bytes | str, command: str) -> Mapping[str, Any]:
    """Return the object that a command printed.

    Raises:
        SchedulerError: it is no JSON, or no object.
    """
    try:
        found = json.loads(said)
    except (ValueError, RecursionError) as error:
        raise SchedulerError(f"{command} printed no JSON: {str(error)[:200]}") from error
    if not isinstance(found, Mapping):
        raise SchedulerError(f"{command} printed JSON of an unsupported Slurm release")
    return found


def _records(said: bytes | str, command: str) -> list[object]:
    found = document(said, command)
    jobs = found.get("jobs")
    if found.get("errors"):
        raise SchedulerError(f"{command} printed errors, and what it printed is not all: {str(found['errors'])[:200]}")
    if not isinstance(jobs, list):
        raise SchedulerError(f"{command} printed JSON without jobs; is its Slurm release supported?")
    if len(jobs) > _MOST_JOBS:
        raise SchedulerError(
            f"{command} printed {len(jobs):,} jobs, and {_MOST_JOBS:,} is the maximum at once; split it"
        )
    return jobs


def _each(
    records: Iterable[object], read: Callable[[int, Mapping[str, Any]], Job], count: RowCount | None
) -> list[Job]:
    """Return the jobs that records are, each counted."""
    count = RowCount() if count is None else count
    found: list[Job] = []
    for place, record in enumerate(records, 1):
        raw_id = whole_number(record.get("job_id")) if isinstance(record, Mapping) else None
        if raw_id is None or not isinstance(record, Mapping):
            count.refuse(f"job {place} of the list", "it has no number")
            continue
        try:
            job = read(raw_id, record)
        except SchedulerError as error:
            count.refuse(f"job {raw_id}", str(error))
            continue
        count.add(held_gpus(job) or (job.phase == "waiting" and job.uses_gpus))
        found.append(job)
    return found


def held_gpus(job: Job) -> bool:
    """Whether a job holds or has held GPUs, or parts of them."""
    return job.uses_gpus and job.started_at is not None and bool(job.nodes)


def _queued(raw_id: int, record: Mapping[str, Any]) -> Job:
    return _job(raw_id, record, _SQUEUE, partial(_held_in_details, record.get("gres_detail")))


def _held_in_details(details: object, nodes: tuple[str, ...]) -> _GpusHeld:
    """Return the GPUs on each node; one detail a node, in the order of the nodes, or it is not to be believed."""
    if not isinstance(details, list) or len(details) != len(nodes):
        return (None,) * len(nodes)
    return tuple(gpu_indices(str(detail)) for detail in details)


def _accounted(raw_id: int, record: Mapping[str, Any]) -> Job:
    parts = ((name, part) for name, part in record.items() if isinstance(part, Mapping))
    flat = {**record, **{f"{name}.{key}": value for name, part in parts for key, value in part.items()}}
    if flat.get("tres.allocated") is None:
        raise SchedulerError("it does not say what it was allocated")
    _check_tres(flat, "tres.allocated", "tres.requested")
    return _job(raw_id, flat, _SACCT)


def shown_jobs(said: bytes) -> list[Job]:
    """Return the jobs of `scontrol -d show job`, a paragraph each; a paragraph that is none is passed over.

    Each of the fields that a user may fill with any text has a line of its own there, which is why this form is read
    and not the one with a line a job.
    """
    paragraphs = re.split(r"\n\s*\n", said.decode("utf-8", "replace"))
    return [job for paragraph in paragraphs if (job := _shown(paragraph)) is not None]


def _shown(paragraph: str) -> Job | None:
    lines = [line.strip() for line in paragraph.strip().splitlines()]
    name, fields = _heading(lines)
    fields |= dict(_settings(lines))
    raw_id, task = whole_number(fields.get("JobId")), fields.get("ArrayTaskId", "")
    if raw_id is None:
        return None
    fields |= {form: fields.get(form) or fields.get("TRES", "") for form in ("ReqTRES", "AllocTRES")}
    fields["WCKey"] = fields.get("WCKey", "").lstrip("*")
    user = _USER.fullmatch(fields.get("UserId", ""))
    return _job(
        raw_id,
        fields,
        _SCONTROL,
        partial(_held_in_lines, lines),
        name=text(name),
        user=user[1] if user else None,
        waiting_tasks=text(task) if whole_number(task) is None else None,
        time_limit_seconds=clock_limit(fields.get("TimeLimit", "")),
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


def _held_in_lines(lines: list[str], nodes: tuple[str, ...]) -> _GpusHeld:
    held: dict[str, tuple[int, ...] | None] = {}
    for line in lines:
        if line.startswith("Nodes="):
            fields = dict(_SETTING.findall(line))
            held.update(dict.fromkeys(host_names(fields["Nodes"]), gpu_indices(fields.get("GRES", ""))))
    return tuple(held.get(node) for node in nodes)


def accounted_in_text(said: bytes, fields: str = SACCT_FIELDS, count: RowCount | None = None) -> list[Job]:
    """Return the jobs of `sacct -P -X -n` with these fields."""
    return _rows(fields.split(","), lines_of(decoded(said)), 1, None, RowCount() if count is None else count)


def titled_jobs(said: str, zone: ZoneInfo | None, count: RowCount) -> list[Job]:
    """Return the jobs of a file that `sacct -P` has printed, a line near its beginning naming the fields.

    Raises:
        SchedulerError: fields are missing, or times have no zone and nobody says which.
    """
    names = {name.lower(): name for name in (*HISTORY_FIELDS.split(","), *_FURTHER)}
    tables = titled_rows(lines_of(said), _NEEDED, _MADE_BY)
    parts = (_rows([names.get(title, title) for title in titles], rows, at, zone, count) for at, titles, rows in tables)
    return [job for jobs in parts for job in jobs]


_FURTHER = ("Timelimit", "ElapsedRaw", "Restarts")  # read where they are there, and not asked for
_MADE_BY = f"make it with: SLURM_TIME_FORMAT=%s sacct -a -X -D -P -S TIME --format={HISTORY_FIELDS}"


def _rows(columns: list[str], lines: Sequence[str], first: int, zone: ZoneInfo | None, count: RowCount) -> list[Job]:
    blank = dict.fromkeys((*HISTORY_FIELDS.split(","), *_FURTHER), "") | {"Submit": "Unknown"}

    def read(record: dict[str, str]) -> tuple[Job | None, int]:
        return _accounted_row(blank | record, zone)

    return list(RowReader(columns, read, held_gpus, count).rows(lines, first))


def _accounted_row(record: dict[str, str], zone: ZoneInfo | None) -> tuple[Job | None, int]:
    """Return the job of a row, None of a step, and how many of its times are doubtful.

    Raises:
        SchedulerError: a field is not what it must be.
    """
    found = _ID.fullmatch(record["JobID"])
    if found is None and _STEP.fullmatch(record["JobID"]):
        return None, 0
    if found is None or record.get("", ""):
        raise SchedulerError(f"{record['JobID'][:40]!r} is not a job's number")
    if not _STATE.fullmatch(record["State"]):
        raise SchedulerError(f"{record['State'][:40]!r} is not a state")
    _check_tres(record, "AllocTRES", "ReqTRES")
    limit = limit_seconds(record["TimelimitRaw"]) if record["TimelimitRaw"] else clock_limit(record["Timelimit"])
    seconds, doubtful = consistent(
        [moments(record[name], zone, _MADE_BY) for name in _TIMES],
        partial(_agrees, limit, number(record["ElapsedRaw"])),
    )
    record |= {name: str(at or "") for name, at in zip(_TIMES, seconds, strict=True)}
    record["WCKey"] = record["WCKey"].lstrip("*")
    is_array = found["task"] is not None or found["waiting"] is not None
    job = _job(
        whole_number(record["JobIDRaw"].split("_", 1)[0]) or int(found["whole"]),
        record,
        _SACCT_TEXT,
        array_id=whole_number(found["whole"]) if is_array else None,
        task_id=whole_number(found["task"]),
        waiting_tasks=found["waiting"],
        het_id=whole_number(found["whole"]) if found["offset"] else None,
        het_offset=whole_number(found["offset"]),
        time_limit_seconds=limit,
    )
    return job, doubtful


def _check_tres(record: Mapping[str, object], *names: str) -> None:
    for name in names:
        if not _is_tres(tres := tres_text(record.get(name) or "")):
            raise SchedulerError(f"{name} {tres[:40]!r} does not say how many GPUs")


@lru_cache(10_000)
def _is_tres(tres: str) -> bool:
    return bool(_TRES.fullmatch(tres)) and not (_OF_GPUS.search(tres) and gpus_in(tres) is None)


def _agrees(limit: float | None, elapsed: float | None, times: Sequence[int | None]) -> bool:
    """Whether three times agree with a limit and a length, in seconds."""
    submitted, started, ended = times
    if started is None or ended is None:
        return in_order(submitted, started)
    lasted = ended - started
    return in_order(submitted, started) and (
        lasted == elapsed if elapsed is not None else in_order(lasted, None if limit is None else limit + _OVER_SECONDS)
    )


_OVER_SECONDS = 600  # how long Slurm may take to end a job that is at its limit
