"""Every row of a file of Slurm's accounting is taken, holds no GPU, or is not read with a reason; none is lost.

The cases are of public reports: names with bars and line breaks, times of other forms and zones, ends that nobody
knows, numbers that come again, MIG in types, banners.
"""

import csv
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

import gpuledger
from collector.errors import FileRefusedError
from collector.importing.allocation_file import of_holders
from collector.importing.history import bring, zone
from collector.importing.slurm_history import SlurmAnswer, from_files, history
from collector.schedulers.slurm.jobs import Job
from collector.schedulers.slurm.rows import RowCount
from tests.analyzer.ledger.fleet import DAY, HOUR, SECOND, Fleet
from tests.collector.importing.accounting import (
    BERLIN,
    COLUMNS,
    EPOCH,
    Record,
    as_json,
    as_rest,
    as_text,
    month,
    written,
)
from tests.collector.importing.site import Site, T, job

DAY0 = EPOCH * SECOND
HEAD = "JobID|State|User|Submit|Start|End|NodeList|AllocTRES|JobName"
FINE = "841|COMPLETED|ann|1792800000|1792800000|1792803600|g1|gres/gpu=4|fine"


def read(tmp_path: Path, text: str, timezone: str | None = None, name: str = "jobs.txt") -> SlurmAnswer:
    """Return what a file with this text tells."""
    (tmp_path / name).write_text(text, newline="")
    return from_files([tmp_path / name], zone(timezone) if timezone else None)


def of_only(told: SlurmAnswer) -> RowCount:
    """Return the count of the only file."""
    (count,) = told.counts.values()
    return count


def counts(told: SlurmAnswer) -> tuple[int, int, int]:
    """Return how many rows of the only file were taken, not about GPUs, and were not read."""
    count = of_only(told)
    return count.taken, count.other, count.unread


def held(told: SlurmAnswer) -> list[tuple[str, str, int, int, int]]:
    """Return who held how many GPUs of which host, by the second."""
    return sorted((job.user or "", *place(job)) for job in told.accounted)


def place(job: Job) -> tuple[str, int, int, int]:
    """Return a job's first host, its GPUs, and its seconds."""
    started, ended = job.started_at or 0, job.ended_at or 0
    return job.nodes[0], job.allocated_gpus or 0, started // SECOND, ended // SECOND


@pytest.mark.parametrize("mark", ["\t", ";", ","])
def test_fields_may_be_apart_by_another_mark(tmp_path: Path, mark: str) -> None:
    """As `--delimiter` and spreadsheets have it, which put what holds the mark in quotes."""
    rows = [HEAD.split("|"), FINE.split("|"), [*FINE.replace("841", "842").split("|")[:-1], f"lr=1{mark}bs|8"]]
    rows[2][7] = "cpu=8,gres/gpu=4"
    with (tmp_path / "jobs.csv").open("w", newline="") as file:
        file.write(f"Welcome{mark * 20} to the login host\n")
        csv.writer(file, delimiter=mark).writerows(rows)
    told = from_files([tmp_path / "jobs.csv"], None)
    assert held(told) == [("ann", "g1", 4, 1792800000, 1792803600)] * 2
    assert [job.name for job in told.accounted] == ["fine", f"lr=1{mark}bs|8"]


def test_a_list_with_commas_among_commas_is_not_guessed(tmp_path: Path) -> None:
    """`--delimiter=,` puts nothing in quotes: read as it stands, a job of four GPUs has none, and an odd name."""
    text = f"{HEAD}\n{FINE}\n{FINE.replace('gres/gpu=4', 'cpu=8,gres/gpu=4')}\n".replace("|", ",")
    with pytest.raises(FileRefusedError, match=r"line 3 has 10 fields apart by ',' where 9 are named.*--parsable2"):
        read(tmp_path, text)


def test_a_bar_in_a_name_moves_no_column(tmp_path: Path) -> None:
    """Sweeps have their parameters in their names."""
    rows = (
        "JobID|JobName|User|State|Submit|Start|End|NodeList|AllocTRES",
        "501|plain|ann|COMPLETED|1792800000|1792800000|1792803600|g1|cpu=8,gres/gpu=4",
        "502|sweep|lr=0.1|bob|COMPLETED|1792800000|1792800000|1792803600|g2|cpu=8,gres/gpu=4",
        "503|a|b|c|bob|FAILED|1792800000|1792800000|1792803600|g3|cpu=8,gres/gpu=4",
    )
    told = read(tmp_path, "\n".join(rows) + "\n")
    assert [(job.id, job.name, job.user) for job in told.accounted] == [
        ("501", "plain", "ann"),
        ("502", "sweep|lr=0.1", "bob"),
        ("503", "a|b|c", "bob"),
    ]
    assert counts(told) == (3, 0, 0)


@pytest.mark.parametrize("last", [False, True])
def test_a_line_break_in_a_name_breaks_no_row(tmp_path: Path, last: bool) -> None:
    """And what ends a line elsewhere (U+0085, a form feed) ends none here."""
    names = ("fine", "two\nlines", "x\x85y", "three\n\nlines|more", "end\x0c")
    rows = []
    for number, name in enumerate(names, 861):
        facts = "COMPLETED|ann|1792800000|1792800000|1792803600|g1|gres/gpu=4"
        rows.append(f"{number}|{facts}|{name}" if last else f"{number}|{name}|{facts}")
    fields = "State|User|Submit|Start|End|NodeList|AllocTRES"
    told = read(tmp_path, "\n".join([f"JobID|{fields}|JobName" if last else f"JobID|JobName|{fields}", *rows]) + "\n")
    assert counts(told) == (5, 0, 0)
    assert [job.user for job in told.accounted] == ["ann"] * 5
    wanted = [name.replace("\n\n", "\n") if last else name for name in names]
    assert [job.name for job in told.accounted] == wanted


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("812|RUNNING|ann|24 Oct 02:00|24 Oct 02:00|Unknown|g4|gres/gpu=4|y", "'24 Oct 02:00' is not a time"),
        ("812|COMPLETED|ann|1792800000|1792803600|1792800000|g1|gres/gpu=4|y", "it ends before it starts"),
        ("812|COMPLETED|ann|1792800000|1792800000", "it has 5 of 9 columns"),
        ("812|COMPLETED|ann|1792800000|1792800000|1792803600|g[1-|gres/gpu=4|y", "not a valid host list"),
        ("812|COMPLETED|ann|1792800000|1792800000|1792803600|g1|gres/gpu=4K|y", "does not say how many GPUs"),
        ("812|COMPLETED|ann|1792800000|1792800000123|1792803600|g1|gres/gpu=4|y", "'1792800000123' is not a time"),
        ("812|COMPLETED|ann|2026-10-24|2026-10-24|2026-10-25|g1|gres/gpu=4|y", "'2026-10-24' is not a time"),
        ("812|COMPLETED|ann|1792800000|Unknown|1792803600|g1|gres/gpu=4|y", "does not say since when"),
        ("812|COMPLETED|ann|1792800000|1792800000|1792803600|None assigned|gres/gpu=4|y", "on which hosts"),
        ("job12|COMPLETED|ann|1792800000|1792800000|1792803600|g1|gres/gpu=4|y", "'job12' is not a job's number"),
        ("8.1E+11|COMPLETED|ann|1792800000|1792800000|1792803600|g1|gres/gpu=4|y", "'8.1E+11' is not a job's number"),
        ("812|12:00|ann|1792800000|1792800000|1792803600|g1|gres/gpu=4|y", "'12:00' is not a state"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_what_cannot_be_read_is_counted_with_its_reason(tmp_path: Path, row: str, why: str, before: bool) -> None:
    """It takes no row beside it along, neither the one before nor the one after."""
    rows = [row, FINE] if before else [FINE, row]
    told = read(tmp_path, "\n".join([HEAD, *rows]) + "\n", "Europe/Berlin")
    assert counts(told) == (1, 0, 1)
    assert why in of_only(told).why[0]
    assert of_only(told).why[0].startswith(f"line {2 if before else 3}: ")
    assert [job.name for job in told.accounted] == ["fine"]


def test_joined_files_may_have_their_fields_in_different_orders(tmp_path: Path) -> None:
    """The head of the second file says what its rows are: read by the first, a start would be an end."""
    titles, values = HEAD.split("|")[::-1], FINE.replace("841", "842").replace("g1", "g2").split("|")[::-1]
    told = read(tmp_path, "\n".join([HEAD, FINE, "|".join(titles), "|".join(values), ""]))
    assert [(user, node) for user, node, *_ in held(told)] == [("ann", "g1"), ("ann", "g2")]
    assert counts(told) == (2, 0, 0)


@pytest.mark.parametrize("tres", ["cpu=8,mem=64G,node=1", ""])
def test_accounting_that_counts_no_gpus_is_told(tmp_path: Path, tres: str) -> None:
    """Without gres/gpu in AccountingStorageTRES every GPU of a year would be nobody's, and nobody would hear why."""
    text = "\n".join([HEAD, FINE.replace("gres/gpu=4", tres), ""])
    assert any("AccountingStorageTRES" in line for line in read(tmp_path, text).sentences())
    told = read(tmp_path, text + FINE + "\n")
    assert not any("AccountingStorageTRES" in line for line in told.sentences())


SHOWN = """JobId=7 JobName=a|b
   UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A
   JobState={state} Reason=None Dependency=(null)
   SubmitTime=2026-10-24T02:00:00 StartTime=2026-10-24T03:00:00 EndTime=2026-10-24T05:00:00 Deadline=N/A
   NodeList=g[1-2]
   AllocTRES=cpu=16,node=2,gres/gpu=3
     Nodes=g1 CPU_IDs=0-7 Mem=0 GRES=gpu:h100:2(IDX:0,3)
     Nodes=g2 CPU_IDs=0-7 Mem=0 GRES=gpu:h100:1(IDX:1)
   Command=/home/ann/job.sh
"""


def test_what_scontrol_shows_is_the_queue(tmp_path: Path) -> None:
    """Where squeue has no JSON, the numbers of GPUs stand there alone, with local times."""
    told = read(tmp_path, SHOWN.format(state="RUNNING"), "Europe/Berlin")
    assert told.queued is not None
    (job,) = told.queued
    assert (job.id, job.user, job.nodes, job.gpus) == ("7", "ann", ("g1", "g2"), ((0, 3), (1,)))
    assert (job.started_at, job.ended_at) == (1792803600 * SECOND, None)
    assert counts(told) == (1, 0, 0)
    for text, why in ((SHOWN, "use --timezone"), (" ".join(SHOWN.split()), "a line a job")):
        with pytest.raises(FileRefusedError, match=why):
            read(tmp_path, text)


def test_a_file_that_ends_within_a_line_says_so(tmp_path: Path) -> None:
    """Of gres/gpu=16 a copy that broke off may have kept gres/gpu=1."""
    for end, is_cut in (("", True), ("\n", False)):
        told = read(tmp_path, f"{HEAD}\n{FINE}{end}")
        assert any("the last line has no end" in line for line in told.sentences()) == is_cut


def test_a_wall_time_that_never_was_is_not_read(tmp_path: Path) -> None:
    """When summer time begins an hour is left out; a time within it is of another zone, or of no clock."""
    times = "2026-03-28T10:00:00|2026-03-29T{}:30:00|2026-03-29T05:00:00"
    text = f"{HEAD}\n841|COMPLETED|ann|{times}|g1|gres/gpu=4|fine\n"
    assert counts(read(tmp_path, text.format("03"), "Europe/Berlin")) == (1, 0, 0)
    told = read(tmp_path, text.format("02"), "Europe/Berlin")
    assert counts(told) == (0, 0, 1)
    assert of_only(told).why == [
        "line 2: 2026-03-29T02:30:00 does not exist in Europe/Berlin, where clocks went forward over it"
    ]


def test_steps_and_jobs_without_gpus_are_rows_too(tmp_path: Path) -> None:
    """Whoever forgot -X has them in between; a job that never began holds nothing."""
    more = (
        "841.batch|COMPLETED||1792800000|1792800000|1792803600|g1|gres/gpu=4|batch",
        FINE.replace("gres/gpu=4", "cpu=1"),
    )
    never = "823|CANCELLED by 1000|bob|1792800000|None|1792803600|None assigned||never"
    told = read(tmp_path, "\n".join([HEAD, FINE, *more, never, HEAD, FINE]) + "\n")
    assert counts(told) == (2, 3, 0)


def test_bars_that_may_be_of_two_columns_with_another_meaning_are_not_guessed(tmp_path: Path) -> None:
    """Where a comment and a name surround the user, either may hold the bar."""
    head = "JobID|JobName|User|Comment|State|Submit|Start|End|NodeList|AllocTRES"
    row = "7|a|b|c|d|COMPLETED|1792800000|1792800000|1792803600|g1|gres/gpu=4"
    told = read(tmp_path, f"{head}\n{row}\n")
    assert counts(told) == (0, 0, 1)
    assert of_only(told).why == ["line 2: its bars can be read in more than one way"]


def test_at_the_end_of_summer_time_the_end_chooses(tmp_path: Path) -> None:
    """02:10 stands twice that night: a job that began at 02:50 ended at the second; where either may be, it is told."""
    rows = (
        "701|COMPLETED|ann|2026-10-25T02:50:00|2026-10-25T02:50:00|2026-10-25T02:10:00|g1|gres/gpu=4|crosses",
        "702|COMPLETED|bob|2026-10-25T02:30:00|2026-10-25T02:30:00|2026-10-25T03:30:00|g2|gres/gpu=4|second0230",
        "703|COMPLETED|cid|2026-10-25T01:30:00|2026-10-25T01:30:00|2026-10-25T02:30:00|g3|gres/gpu=4|ends0230",
    )
    told = read(tmp_path, "\n".join([HEAD, *rows]) + "\n", "Europe/Berlin")
    first = told.accounted[0]
    assert (first.started_at, first.ended_at) == (
        DAY0 + 24 * HOUR + 50 * 60 * SECOND,
        DAY0 + 25 * HOUR + 10 * 60 * SECOND,
    )
    assert (counts(told), of_only(told).doubtful_times) == ((3, 0, 0), 2)
    assert any("2 times stand twice" in line for line in told.sentences())


@pytest.mark.parametrize("more", ["|60", "|"])
def test_a_limit_says_which_of_two_hours_is_meant(tmp_path: Path, more: str) -> None:
    """02:30 to 03:30 is two hours or one; a job with a limit of one hour was not there for two."""
    row = "702|COMPLETED|bob|2026-10-25T02:30:00|2026-10-25T02:30:00|2026-10-25T03:30:00|g2|gres/gpu=4"
    head = HEAD.removesuffix("|JobName") + "|TimelimitRaw"
    told = read(tmp_path, f"{head}\n{row}{more}\n", "Europe/Berlin")
    (job,) = told.accounted
    hours = ((job.ended_at or 0) - (job.started_at or 0)) // HOUR
    assert (hours, of_only(told).doubtful_times) == ((1, 0) if more == "|60" else (2, 1))


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S.000", "%Y-%m-%dT%H:%M:%S+0200"]
)
def test_times_may_have_any_form_that_says_when(tmp_path: Path, form: str) -> None:
    """Sites set SLURM_TIME_FORMAT."""
    start, end = (datetime.fromtimestamp(EPOCH + hours * 3600, BERLIN).strftime(form) for hours in (0, 2))
    told = read(tmp_path, f"{HEAD}\n811|COMPLETED|ann|{start}|{start}|{end}|g3|gres/gpu=4|x\n", "Europe/Berlin")
    assert held(told) == [("ann", "g3", 4, EPOCH, EPOCH + 7200)]


def test_events_have_local_times_too(tmp_path: Path) -> None:
    """A drain that cannot be placed in time is refused as a job is, and not dropped."""
    text = (
        "Cluster|NodeName|TimeStart|TimeEnd|State|Reason\n"
        "alpha||2026-10-24T10:00:00|Unknown||Cluster Registered TRES\n"
        "alpha|g1|2026-10-24T10:00:00|2026-10-24T20:00:00|DRAIN|bad fan\n"
        "alpha|g2|2026-10-25T10:00:00|Unknown|DOWN|gone\n"
        "alpha|g3|noon|Unknown|DOWN|gone\n"
    )
    told = read(tmp_path, text, "Europe/Berlin")
    assert [(event.node, event.started_at, event.ended_at) for event in told.events] == [
        ("g1", DAY0 + 8 * HOUR, DAY0 + 18 * HOUR),
        ("g2", DAY0 + 33 * HOUR, None),
    ]
    assert counts(told) == (2, 1, 1)
    with pytest.raises(FileRefusedError, match="--timezone"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        f"Welcome to alpha\n\n{HEAD}\n{FINE}\n",
        f"\ufeff{HEAD}\r\n{FINE}\r\n",
        f"{HEAD.upper()}\n{FINE}",
        f"{HEAD}|\n{FINE}|\n",
    ],
)
def test_a_banner_a_mark_and_ends_of_lines_are_no_rows(tmp_path: Path, text: str) -> None:
    """A login shell prints a line before the answer, an editor puts a mark before the first."""
    told = read(tmp_path, text)
    assert (counts(told), held(told)) == ((1, 0, 0), [("ann", "g1", 4, EPOCH, EPOCH + 3600)])


def test_json_after_a_banner_and_in_utf16_is_read(tmp_path: Path) -> None:
    """A Windows shell writes what it is sent in two bytes a letter."""
    records = month(1)
    (tmp_path / "wide.txt").write_bytes(as_text(records, [*COLUMNS, "AllocTRES"]).encode("utf-16"))
    said = "Welcome to alpha {hello}\n" + written(as_json(records))
    assert held(from_files([tmp_path / "wide.txt"])) == held(read(tmp_path, said))


@pytest.mark.parametrize("head", ["Job,Status,Begin", "JobID           JobName  Partition"])
def test_a_foreign_head_is_quoted(tmp_path: Path, head: str) -> None:
    """A file of other fields, or with columns of fixed width, cannot be read; the sentence shows what stands there."""
    with pytest.raises(FileRefusedError, match=f"the first is '{head}'"):
        read(tmp_path, f"{head}\n7,RUNNING,1792800000\n")


def allocations(site: Site, told: SlurmAnswer) -> list[tuple[object, ...]]:
    """Return the claims that follow: run, user, host, GPUs, hours from the first day."""
    with site.store.session() as session:
        found = history(session, told, "alpha", DAY0, DAY0 + 72 * HOUR)
    return sorted(
        (one.run_id, one.attempt, one.facts["user"], one.node, one.gpus, one.started_at, one.ended_at)
        for one in found.claims
    )


def test_an_end_that_nobody_knows_is_the_limit_at_most(site: Site, tmp_path: Path) -> None:
    """A host died, and accounting has no end: its GPUs are not held for ever."""
    head = "JobID|State|User|Submit|Start|End|TimelimitRaw|NodeList|AllocTRES"
    facts = "ann|1792800000|1792800000|Unknown|{}|g1|gres/gpu=4"
    rows = [
        f"{n}|{state}|" + facts.format(limit)
        for n, (state, limit) in enumerate(
            (
                ("NODE_FAIL", 120),
                ("FAILED", "UNLIMITED"),
                ("CANCELLED by 7", ""),
                ("RUNNING", 120),
                ("BOOT_FAIL", 99999),
            ),
            1,
        )
    ]
    told = read(tmp_path, "\n".join([head, *rows]) + "\n")
    assert [(row[0], row[6]) for row in allocations(site, told)] == [("slurm/alpha/1", DAY0 + 2 * HOUR)]
    with site.store.session() as session:
        notes = history(session, told, "alpha", DAY0, DAY0 + 72 * HOUR).notes
    assert [note.split(":")[0] for note in notes] == [
        "1 jobs run in accounting, past their time limit",
        "3 jobs have ended and accounting does not know when",
        "1 jobs have ended and accounting does not know when",
    ]


def test_the_end_of_a_record_counts_whatever_its_word(site: Site, tmp_path: Path) -> None:
    """A record of a job that was resized says RESIZING for ever; the next one has the hosts that it kept."""
    head = "JobID|State|User|Submit|Start|End|NodeList|AllocTRES"
    rows = (
        "5|RESIZING|ann|1792800000|1792800000|1792803600|g[1-2]|gres/gpu=8",
        "5|COMPLETED|ann|1792803600|1792803600|1792807200|g1|gres/gpu=4",
        "6|RUNNING|bob|1792800000|1792800000|1792803600|g3|gres/gpu=4",
        "7|LAUNCH_FAILED|bob|1792800000|1792807200|1792810800|g3|gres/gpu=4",
    )
    found = allocations(site, read(tmp_path, "\n".join([head, *rows]) + "\n"))
    assert [(row[0], row[1], row[3], row[5], row[6]) for row in found] == [
        ("slurm/alpha/5", 0, "g1", DAY0, DAY0 + HOUR),
        ("slurm/alpha/5", 0, "g2", DAY0, DAY0 + HOUR),
        ("slurm/alpha/5", 1, "g1", DAY0 + HOUR, DAY0 + 2 * HOUR),
        ("slurm/alpha/6", 0, "g3", DAY0, DAY0 + HOUR),
        ("slurm/alpha/7", 0, "g3", DAY0 + 2 * HOUR, DAY0 + 3 * HOUR),
    ]


AGAIN = "1001|{state}|{user}|chem|{submit}|{start}|{end}|{host}|gres/gpu=4|{name}"


@pytest.mark.parametrize(
    ("state", "user", "name", "hours", "runs"),
    [
        ("FAILED", "bob", "md", 24, 2),
        ("REQUEUED", "bob", "md", 0.01, 2),  # another user's work is never the same
        ("FAILED", "ann", "train", 24, 2),
        ("FAILED", "ann", "train", 0.01, 1),  # scontrol requeue, a minute later
        ("COMPLETED", "ann", "md", 0.01, 2),
        ("REQUEUED", "ann", "train", 24, 1),
        ("PREEMPTED", "ann", "train", 100, 1),
        ("NODE_FAIL", "ann", "train", 24, 1),
    ],
)
def test_a_number_that_comes_again_is_the_same_run_where_it_is_the_same_work(
    site: Site, tmp_path: Path, state: str, user: str, name: str, hours: float, runs: int
) -> None:
    """After a reset of its counter Slurm gives a number to others; a requeued job keeps it."""
    again = EPOCH + 7200 + round(hours * 3600)
    first = AGAIN.format(state=state, user="ann", name="train", submit=EPOCH, start=EPOCH, end=EPOCH + 7200, host="g1")
    second = AGAIN.format(
        state="COMPLETED", user=user, name=name, submit=again, start=again, end=again + 7200, host="g2"
    )
    told = read(tmp_path, f"JobID|State|User|Account|Submit|Start|End|NodeList|AllocTRES|JobName\n{first}\n{second}\n")
    with site.store.session() as session:
        found = history(session, told, "alpha", DAY0, DAY0 + 240 * HOUR).claims
    assert len({one.run_id for one in found}) == runs
    assert [one.attempt for one in found] == ([0, 1] if runs == 1 else [0, 0])
    assert found[0].run_id == "slurm/alpha/1001"


def test_two_works_of_one_number_are_two_runs_in_every_order_of_imports(site: Site) -> None:
    """Which of them an import tells first changes no other's hours."""
    first, second = job(7, 1, 3, 4, user="ann"), job(7, 10, 12, 4, "n2", user="bob", name="md")
    site.accounted = [second]
    site.bring()
    site.accounted = [first, second]
    site.bring()
    assert not any(site.bring().new.values())
    found = sorted(set(site.allocations("run_id", '"user"', "started_at", "ended_at")))
    assert found == [
        ("slurm/alpha/7", "bob", T + 10 * HOUR, T + 12 * HOUR),
        (f"slurm/alpha/7@{T // SECOND}", "ann", T + HOUR, T + 3 * HOUR),
    ]


def test_instances_and_shards_are_parts_of_gpus(site: Site, tmp_path: Path) -> None:
    """Seven slices at a time on one host are not seven GPUs, and no GPU is missed for them."""
    head = "JobID|State|User|Submit|Start|End|NodeList|AllocTRES"
    tres = (
        "gres/gpu:a100_1g.5gb=1,gres/gpu=1",
        "gres/gpu:nvidia_a100_3g.20gb=1",
        "gres/gpu:mig-1g_5gb=1,gres/gpu=1",
        "gres/gpu:a100-1g-5gb=1,gres/gpu=1",
        "gres/gpu:1g.33gb:1",
        "gres/shard=1",
    )
    rows = [f"{n}|COMPLETED|ann|1792800000|1792800000|1792803600|n1|cpu=1,{one}" for n, one in enumerate(tres, 1)]
    told = read(tmp_path, "\n".join([head, *rows]) + "\n")
    assert counts(told) == (6, 0, 0)
    assert {row[4] for row in allocations(site, told)} == {0}


def test_records_of_json_are_counted_too(tmp_path: Path) -> None:
    """One that cannot be read takes none of the others along."""
    document = as_json(month(1)[:4])
    good = len(read(tmp_path, written(document)).accounted)
    first = document["jobs"][0]
    times = first["time"] | {"start": first["time"]["end"] + 1}
    document["jobs"] += [7, {"job_id": None}, first | {"time": times}, first | {"nodes": "g[1-"}]
    told = read(tmp_path, written(document))
    assert (len(told.accounted), counts(told)[2], sum(counts(told))) == (good, 4, 8)
    assert of_only(told).why[2].endswith("it ends before it starts")


SEEDS = range(200)


@pytest.mark.parametrize("seeds", [SEEDS[at : at + 20] for at in range(0, 200, 20)], ids=str)
def test_generated_accounting_is_read_to_the_second_or_counted(tmp_path: Path, seeds: range) -> None:
    """Whatever the names, the order of columns and the clock: nobody holds what another had, no row is lost."""
    for seed in seeds:
        choose, records = random.Random(seed), month(seed)
        columns = [*COLUMNS, "AllocTRES", "ElapsedRaw", *choose.sample(["Partition", "JobIDRaw"], choose.randrange(3))]
        choose.shuffle(columns)
        local = choose.choice((None, BERLIN))
        told = read(tmp_path, as_text(records, columns, local), "Europe/Berlin" if local else None)
        taken, other, unread = counts(told)
        truth = [one.holding for one in records if one.gpus >= 0]
        found = held(told)
        wrong = [one for one in found if one not in truth]
        assert all((*who, start + 3600, end + 3600) in truth for *who, start, end in wrong), seed
        assert 2 * len(wrong) <= of_only(told).doubtful_times, seed  # wholly in the hour that comes twice
        assert taken == len(found), seed
        assert taken + other + unread >= len(records), seed
        if unread == 0:
            assert wrong or found == sorted(truth), seed
            assert other == sum(one.gpus < 0 for one in records), seed


@pytest.mark.parametrize("seed", range(12))
def test_text_json_and_rest_tell_the_same_month(site: Site, tmp_path: Path, seed: int) -> None:
    """Equal allocations to the second, whichever way a site has its accounting."""
    records = [replace(one, name=one.name.replace("\n", " ")) for one in month(seed)]
    ways = {
        "text": as_text(records, [*COLUMNS, "AllocTRES"]),
        "json": written(as_json(records)),
        "rest": written(as_rest(records)),
    }
    told = {way: read(tmp_path, said, "Europe/Berlin", way) for way, said in ways.items()}
    local = read(tmp_path, as_text(records, [*COLUMNS, "AllocTRES", "ElapsedRaw"], BERLIN), "Europe/Berlin", "local")
    if not of_only(local).doubtful_times:
        told["local"] = local
    found = {way: allocations(site, one) for way, one in told.items()}
    assert found["text"]
    assert all(one == found["text"] for one in found.values())


_GPUS = {host: [f"{host}-{index}" for index in range(4)] for host in ("g1", "g2", "g3")}
_UNTIL = DAY0 + 3 * DAY


def seconds_held(bring_to: Callable[[Fleet], object]) -> dict[tuple[str, str, int], int]:
    """Return the GPU-seconds of each number on each host and hour, by the ledger of a fleet that was told of them."""
    fleet = Fleet()
    for host, gpus in _GPUS.items():
        rows = [{"node": host, "gpu_uuid": gpu, "gpu_index": index} for index, gpu in enumerate(gpus)]
        fleet.add("inventory", [row | {"started_at": DAY0, "ended_at": DAY0 + SECOND, "sku": "H100"} for row in rows])
        for gpu in gpus:
            fleet.sample(host, gpu, DAY0, _UNTIL, every=HOUR)
    bring_to(fleet)
    fleet.analyze(now=_UNTIL)
    with fleet.store.session() as session:
        found = session.rows(
            "SELECT split_part(split_part(run_id, '@', 1), '/', 3), node, hour // 3600000000, sum(milliseconds)::BIGINT"
            " FROM ledger WHERE run_id IS NOT NULL GROUP BY ALL"
        )
    return {(number, host, hour): ms // 1000 for number, host, hour, ms in found}


# The second has numbers that come again on the same host and on another.
@pytest.mark.parametrize("seed", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_accounting_a_prometheus_labels_and_cgroups_tell_the_same_month(tmp_path: Path, seed: int) -> None:
    """The hour of each GPU is the same number's, whoever told it; numbers come again for others meanwhile."""
    records: list[Record] = []
    ended: dict[tuple[str, int], int] = {}
    for one in month(seed):  # labels bridge ten minutes of silence: who comes sooner under one number is one
        if one.gpus == 4 and one.started - ended.get((one.host, one.number), 0) > 600:
            records.append(one)
            ended[one.host, one.number] = one.ended
    told = read(tmp_path, as_text(records, [*COLUMNS, "AllocTRES"]))

    def by_accounting(fleet: Fleet) -> None:
        with fleet.store.session() as session:
            found = history(session, told, "alpha", DAY0, _UNTIL)
        bring(fleet.store, found)

    def by_labels(fleet: Fleet) -> None:
        spans = [
            {"node": one.host, "started_at": one.started * SECOND, "ended_at": one.ended * SECOND} for one in records
        ]
        rows = [
            span | {"hpc_job": str(one.number), "gpu_uuid": gpu}
            for span, one in zip(spans, records, strict=True)
            for gpu in _GPUS[one.host]
        ]
        bring(fleet.store, of_holders(rows, "alpha", DAY0, _UNTIL))

    def by_cgroups(fleet: Fleet) -> None:
        for one in records:
            start, end = one.started * SECOND, one.ended * SECOND
            run = f"slurm/alpha/{one.number}"
            fleet.hold(run, one.host, _GPUS[one.host], start, end, scheduler="cgroup", user=one.user, name=None)

    found = [seconds_held(by) for by in (by_accounting, by_labels, by_cgroups)]
    assert sum(found[0].values()) == sum(4 * (one.ended - one.started) for one in records)
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_the_command_says_what_became_of_each_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And ends with 1 where something was not read: a script that looks at nothing else must learn of it."""
    words = ("import", "slurm", "--since", "2026-10-24", "--until", "2026-10-27", "--store", str(tmp_path / "s.duckdb"))
    for text, code, sentence in (
        (f"{HEAD}\n{FINE}\n", 0, "jobs.txt: 1 row: 1 taken, 0 not about GPUs, 0 not read"),
        (f"{HEAD}\n{FINE}\n7|COMPLETED\n", 1, "not read: line 3: it has 2 of 9 columns"),
    ):
        (tmp_path / "jobs.txt").write_text(text)
        assert gpuledger.main([*words, "--file", str(tmp_path / "jobs.txt")]) == code
        assert sentence in capsys.readouterr().out
