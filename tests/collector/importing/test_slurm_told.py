"""What Slurm told, from its commands and from files that they printed elsewhere."""

import json
from pathlib import Path

import pytest

from collector.errors import FileRefusedError, SchedulerError
from collector.importing.history import zone
from collector.importing.slurm_history import SlurmAnswer, clusters, from_commands, from_files, of_cluster
from collector.schedulers.slurm.jobs import HISTORY_FIELDS, SACCT_FIELDS, Job
from collector.schedulers.slurm.nodes import EVENT_FIELDS, Event
from collector.schedulers.slurm.rows import RowCount
from tests.analyzer.ledger.fleet import DAY, HOUR, SECOND
from tests.collector.importing.site import T, job
from tests.collector.schedulers import modern

DATA = Path(__file__).parents[1] / "schedulers" / "data" / "slurm_22_05"
HEAD = "JobIDRaw|JobID|State|Account|Submit|Start|End|NodeList|AllocTRES|ReqTRES|JobName"


def told_of(tmp_path: Path, text: str, name: str = "jobs", timezone: str | None = None) -> SlurmAnswer:
    """Return what a file with this text tells."""
    path = tmp_path / name
    path.write_text(text)
    return from_files([path], zone(timezone) if timezone else None)


def ids(jobs: list[Job]) -> list[str]:
    """Return the jobs' ids, sorted."""
    return sorted(job.id for job in jobs)


def test_old_and_new_types_of_sacct_tell_the_same(tmp_path: Path) -> None:
    """22.05 wrote numbers and words, 23.11 and newer objects and lists."""
    said = json.loads((DATA / "sacct.json").read_text())
    old = told_of(tmp_path, json.dumps(said), "old.json")
    new = told_of(tmp_path, json.dumps(modern.sacct(said)), "new.json")
    assert old.accounted == new.accounted
    assert len(old.accounted) > 5
    assert clusters(old) == ["testcluster"]


def test_squeue_and_sacct_are_told_apart_by_their_records(tmp_path: Path) -> None:
    """Both print an object with jobs; people mix up names of files."""
    (tmp_path / "b").write_bytes((DATA / "squeue.json").read_bytes())
    (tmp_path / "a").write_bytes((DATA / "sacct.json").read_bytes())
    told = from_files([tmp_path / "a", tmp_path / "b"])
    assert told.queued is not None
    assert any(held is not None for one in told.queued for held in one.gpus)
    assert told.accounted


def test_text_with_its_titles_may_have_any_order(tmp_path: Path) -> None:
    """An export that somebody made a year ago has other columns than ours would."""
    line = "81234|81234_7|COMPLETED|nlp|1762732800|1762736400|1762740000|n[1-2]|billing=1,gres/gpu=16|gres/gpu=16|a|b"
    (found,) = told_of(tmp_path, f"{HEAD}\n{line}\n").accounted
    assert (found.id, found.account, found.nodes, found.allocated_gpus) == ("81234_7", "nlp", ("n1", "n2"), 16)
    assert (found.started_at, found.ended_at, found.name) == (T + HOUR, T + 2 * HOUR, "a|b")


def test_times_without_a_zone_need_one(tmp_path: Path) -> None:
    """Sacct writes local time: taken for UTC, every job would be hours off."""
    text = f"{HEAD}\n7|7|COMPLETED|a|2025-11-10T01:00:00|2025-11-10T02:00:00|2025-11-10T03:00:00|n1|gres/gpu=1||x\n"
    with pytest.raises(FileRefusedError, match="--timezone"):
        told_of(tmp_path, text)
    (found,) = told_of(tmp_path, text, timezone="Europe/Berlin").accounted
    assert found.started_at == T + HOUR


def test_events_are_known_by_their_titles(tmp_path: Path) -> None:
    """sacctmgr prints them, as of a real 22.05: the cluster's own line, a cold start, reasons with bars."""
    text = (
        "Cluster|NodeName|TimeStart|TimeEnd|State|Reason\n"
        "testcluster||1795308106|Unknown||Cluster Registered TRES\n"
        "testcluster|n1|1795308106|1795308108|UNK|cold-start\n"
        "testcluster|n2|1795308127|1795308130|DRAIN|bad | fan\n"
        "testcluster|n3|1795308129|Unknown|DOWN*|gone\n"
        "testcluster|n4|1795308129|Unknown|DRNG|\n"
    )
    found = told_of(tmp_path, text).events
    assert found == [
        Event("n2", "drained", 1795308127 * SECOND, 1795308130 * SECOND, "bad | fan", "testcluster"),
        Event("n3", "down", 1795308129 * SECOND, None, "gone", "testcluster"),
        Event("n4", "drained", 1795308129 * SECOND, None, None, "testcluster"),
    ]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"jobs": 1}', '{"jobs": [', "JobID|State\n7|RUNNING\n", "\x00\xff"])
def test_what_is_none_of_theirs_is_refused(tmp_path: Path, text: str) -> None:
    """In a sentence that names the file."""
    with pytest.raises(FileRefusedError, match="jobs"):
        told_of(tmp_path, text)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """So is a directory."""
    for path in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(FileRefusedError):
            from_files([path])


def test_one_cluster_of_several_is_taken(tmp_path: Path) -> None:
    """An accounting database serves more than one; a job that names none is the cluster's."""
    told = SlurmAnswer([job(1, 1, 2, 1, cluster="a"), job(2, 1, 2, 1, cluster="b"), job(3, 1, 2, 1, cluster=None)])
    assert clusters(told) == ["a", "b"]
    assert ids(list(of_cluster(told, "a").accounted)) == ["1", "3"]


class Said:
    """Stands for the reader: accounting by the day, a queue, events; each may fail."""

    def __init__(self, queue: bool = True) -> None:
        self.asked: list[tuple[int, int]] = []
        self._queue = queue

    def history(self, since: int, until: int, cluster: str | None, count: RowCount) -> list[Job]:
        """Return one job, whatever the day."""
        self.asked.append((since, until))
        assert cluster is None
        return [job(7, 1, None, 1), job(8, 1, 2, 0, allocated_gpus=None, requested_gpus=None)]

    def queued(self) -> list[Job]:
        """Return nobody, or fail."""
        if not self._queue:
            raise SchedulerError("squeue failed with 1: Unable to contact slurm controller")
        return []

    def events(self, since: int, cluster: str | None, count: RowCount) -> list[Event]:
        """Fail, as without a right to ask."""
        raise SchedulerError("sacctmgr failed with 1: Access denied")


def test_accounting_is_asked_day_by_day() -> None:
    """A month of a large cluster in one answer would be gigabytes."""
    said, days = Said(), []
    told, notes = from_commands(
        said,  # type: ignore[arg-type]
        T,
        T + 2 * DAY + HOUR,
        progress=lambda done, of: days.append((done, of)),
    )
    assert said.asked == [(T, T + DAY), (T + DAY, T + 2 * DAY), (T + 2 * DAY, T + 2 * DAY + HOUR)]
    assert days == [(1, 3), (2, 3), (3, 3)]
    assert ids(list(told.accounted)) == ["7", "7", "7"]  # and none without GPUs
    assert notes == ("hosts out of service unknown: sacctmgr failed with 1: Access denied",)


def test_a_controller_that_is_silent_is_told_and_history_goes_on() -> None:
    """Accounting alone is enough for what has ended."""
    told, notes = from_commands(Said(queue=False), T, T + HOUR)  # type: ignore[arg-type]
    assert told.queued is None
    assert notes[0].startswith("the queue unknown: squeue failed")


def test_fields_of_history_are_those_of_a_poll_and_the_cluster() -> None:
    """The titles of a file are looked up among them."""
    assert HISTORY_FIELDS.split(",")[1:] == SACCT_FIELDS.split(",")
    assert EVENT_FIELDS.endswith(",reason")


@pytest.mark.parametrize(
    ("tres", "why"),
    [
        ({"allocated": [{"type": "gres", "name": "gpu", "id": 1001, "count": None}]}, "does not say how many GPUs"),
        ({"allocated": [{"type": "gres", "name": "gpu:h100", "id": 1002, "count": -2}]}, "does not say how many GPUs"),
        ({"allocated": "cpu=8,gres/gpu=4K"}, "does not say how many GPUs"),
        ({"requested": []}, "does not say what it was allocated"),
        (None, "does not say what it was allocated"),
    ],
)
def test_a_record_that_does_not_say_how_many_gpus_is_not_read(tmp_path: Path, tres: object, why: str) -> None:
    """It is none of a job without GPUs: that says how many processors it was allocated."""
    record = json.loads((DATA / "sacct.json").read_text())["jobs"][0]
    (count,) = told_of(tmp_path, json.dumps({"jobs": [record | {"tres": tres}]})).counts.values()
    assert (count.taken, count.other, count.unread) == (0, 0, 1)
    assert count.why[0].endswith(why)


def test_an_answer_with_errors_is_refused(tmp_path: Path) -> None:
    """slurmrestd answers an empty list of jobs where it cannot reach its database."""
    document = {"jobs": [], "errors": [{"error": "Unable to connect to database", "error_number": 7000}]}
    with pytest.raises(FileRefusedError, match="Unable to connect to database"):
        told_of(tmp_path, json.dumps(document))


def test_an_event_of_a_host_that_does_not_say_its_state_is_not_read(tmp_path: Path) -> None:
    """It is none of a host that was up; one of the cluster itself has none."""
    rows = "c|g1|1792800000|1792803600||bad\nc||1792800000|Unknown||Cluster Registered TRES\n"
    (count,) = told_of(tmp_path, f"Cluster|NodeName|TimeStart|TimeEnd|State|Reason\n{rows}").counts.values()
    assert (count.taken, count.other, count.unread) == (0, 1, 1)
