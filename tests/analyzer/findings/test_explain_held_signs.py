"""What is printed beside a finding is what is stored: other data, another answer."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from analyzer.findings.argue import argue
from analyzer.findings.evidence import evidence
from analyzer.findings.finding import Finding, Sign
from analyzer.findings.ledger_findings import findings
from analyzer.findings.signs import IdleGpus, idle_signs
from analyzer.findings.witness_signs import SECOND
from analyzer.ledger.thresholds import RULE_OF, Thresholds
from analyzer.period import Calendar
from collector.lake.tiers import roll_up
from collector.store.schemas import make_tier_tables
from collector.store.session import Session
from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet
from tests.analyzer.small_site import IDLE, analysed_site
from tests.analyzer.windows import stalled, window

WEEK = Calendar().week_of(MONDAY)
LIMITS = Thresholds()

one_pass = OnePass()

# A window in which nothing of what any rule looks for is to be seen.
WELL: dict[str, Any] = {
    **dict.fromkeys(("still", "dips", "short", "busiest", "waiting", "disk_busy", "cpu_throttled", "utilization"), 0),
    **dict.fromkeys(("pressure_io", "pressure_cpu", "host_pressure_io", "host_pressure_cpu", "cores_used_milli"), 0),
    **dict.fromkeys(("pcie_in_kb", "nvlink_kb", "rdma_out", "slowed_most", "slowed_least", "sm_ms", "shares_ms"), 0),
    **dict.fromkeys(("activity", "tensor", "dram", "power", "host_memory_spare"), 990),
    **dict.fromkeys(("decoder", "pressure_memory", "uneven"), 0),
    "uneven_most": 1_000,
    "replicas": 2,
    "needed": 2,
    "running_milli": 8_000,
}
# What a window of each state has that its rules look for, and by cause what is its own; states are the rules'.
STALLED: dict[str, Any] = {"still": 600, "dips": 90, "activity": 400}
ALIKE = {"short": 800, "nvlink_kb": 10**10, "utilization": 990, "activity": 100, "best": 900}
SEEN: dict[str, dict[str, Any]] = {
    "starved": STALLED,
    "unexplained": STALLED,
    "communicating": ALIKE,
    "throttled": {"slowed_most": 400},
    "underused": {"utilization": 990, "activity": 90, "tensor": 10, "dram": 20},
    "headroom": {"still": 900, "replicas": 6, "needed": 2, "policy": "min 2"},
}
OF_CAUSE: dict[str, dict[str, Any]] = {
    "preprocessing": {"busiest": 990, "cpu_throttled": 400, "pressure_cpu": 700},
    "storage": {"pressure_io": 700, "waiting": 700, "disk_busy": 990},
    "network_storage": {"pressure_io": 700, "waiting": 700, "mount_read": 10**9},
    "loader_software": {"busiest": 500, "disk_busy": 100, "waiting": 0, "cpu_throttled": 0, "pcie_in_kb": 10**7},
    "host_to_device": {"pcie_in_kb": 15 * 10**9},
    "own_process": {"cores_used_milli": 8_400, "busiest": 10, "workers": 2},
    "decoder": {"decoder": 990},
    "turns": {"still": 875, "cores_used_milli": 1_000, "busiest": 0, "dips": None},
    "memory": {"pressure_memory": 600, "host_memory_spare": 20},
    "straggler": {"slowed_most": 400, "slowest_gpu": "G"},
    "uneven": {"uneven": 200, "uneven_most": 200},
    "hang": {"nvlink_kb": 10**6},
    "unbatched": {"running_milli": 1_000},
}
VERDICTS: dict[str, str] = {
    "starved": "input_cause",
    "unexplained": "input_suspicion",
    "underused": "underused_cause",
    "communicating/cross_rack": "cross_rack_permille",
    "communicating/straggler": "straggler_permille",
    "communicating/uneven": "is_uneven",
    "communicating/hang": "is_hung",
    "headroom/beyond_policy": "beyond_policy_permille",
}
UNSIGNED = {"broken/hardware"}  # no rule books it yet
ENDED = {"failed": "out_of_memory", "preempted": "preempted", "node_failed": "node_failed"}
PLANTED = "slurm/alpha/storage"  # the run whose hours those of others are made of


def plant(session: Session, rule: str) -> None:
    """Give the ledger a run that loses time by a rule, and windows in which its signs are seen."""
    state, _, cause = rule.partition("/")
    session.execute(
        "INSERT INTO ledger SELECT * REPLACE (? AS run_id, ? AS state, ? AS cause, ? AS suspicion) FROM ledger "
        "WHERE run_id = ?",
        [rule, state, *((None, cause) if state == "unexplained" else (cause, None)), PLANTED],
    )
    session.execute("INSERT INTO runs SELECT * REPLACE (? AS run_id, ? AS name) FROM runs WHERE run_id = ?",
                    [rule, rule, PLANTED])  # fmt: skip
    if state in ("broken", "lost_work"):
        fail(session, rule, cause)
        return
    fields = SEEN[state] | OF_CAUSE.get(cause, {})
    key = VERDICTS.get(state) or VERDICTS.get(rule)
    verdict = {key: cause if state in VERDICTS else 1} | ({"is_low": True, "is_underused": True} if key else {})
    windows = [window(place, run_id=rule, **fields) for place in range(6)]
    if rule == "communicating/hang":  # and worked before, with its links in use
        windows += [window(place, run_id=rule, short=100, nvlink_kb=10**10) for place in range(6, 12)]
    session.load(
        "run_windows",
        ("run_id", "window_start", "counts", "verdict"),
        [
            (rule, MONDAY + one.window_ms * 1000, one.as_json(), json.dumps(
                {"run_id": rule, "window_ms": one.window_ms}
                | {name: told for name, told in verdict.items() if name and one.short != 100}
            ))
            for one in windows
        ],
    )  # fmt: skip


def fail(session: Session, rule: str, cause: str) -> None:
    """Let what is stored say so as well: the driver lost the GPUs, its scheduler the host, or the attempt failed."""
    session.execute(
        "UPDATE gpu_samples SET up = false WHERE gpu_uuid IN (SELECT gpu_uuid FROM ledger WHERE run_id = ?)", [PLANTED]
    )
    nodes = [node for (node,) in session.rows("SELECT DISTINCT node FROM ledger WHERE run_id = ?", [rule])]
    down = [(node, MONDAY - DAY, MONDAY + 7 * DAY, "down", 0) for node in nodes]
    session.load("node_states", ("node", "started_at", "ended_at", "state", "batch"), down)
    (last,) = session.row("SELECT max(hour) + ? FROM ledger WHERE run_id = ?", [HOUR, rule])
    ended = (nodes[0], rule, MONDAY - DAY, last, ENDED.get(cause), 0)
    session.load("allocations", ("node", "run_id", "started_at", "ended_at", "exit_status", "batch"), [ended])


def perturb(session: Session) -> None:
    """Let the stored figures say the opposite of what every finding claims."""
    rows = session.rows("SELECT run_id, window_start, counts FROM run_windows")
    for run_id, start, counts in rows:
        known = json.loads(counts)
        told = {**known, **{key: value for key, value in WELL.items() if key in known or key == "slowed_least"}}
        told["window_ms"] = known["window_ms"] * 3  # none follows on another
        session.execute(
            "UPDATE run_windows SET counts = ? WHERE run_id = ? AND window_start = ?", [json.dumps(told), run_id, start]
        )
    session.execute(
        "UPDATE gpu_samples SET utilization_ratio = 0.66, utilization_zero_ratio = 0, sm_active_ratio = 0.66, "
        "memory_used_bytes = 0"
    )
    session.execute("UPDATE gpu_samples SET up = true")
    session.execute("DELETE FROM node_states")
    session.execute("UPDATE allocations SET exit_status = 'completed'")
    session.execute(
        "INSERT INTO checkpoints (run_id, minute, written_bytes) "
        "SELECT run_id, ended_at - ?, 1 FROM allocations WHERE ended_at IS NOT NULL ON CONFLICT DO NOTHING",
        [2 * MINUTE],
    )
    session.execute("UPDATE runs SET racks = 1")
    session.execute("UPDATE in_rack_rates SET bytes_per_second = 0")


Both = list[tuple[Finding, tuple[Sign, ...], tuple[Sign, ...]]]


@dataclass(frozen=True)
class Perturbed:
    """Each finding with its signs as measured and as they are of other figures; and the findings of those."""

    both: Both
    anew: list[Finding]


@pytest.fixture(scope="module")
def perturbed() -> Iterator[Perturbed]:
    """The small site, and beside what it loses by itself a run for every rule that it has nothing of."""
    fleet = analysed_site()
    with fleet.store.session() as session:
        for rule in sorted(set(RULE_OF) - {one.rule for one in findings(session, WEEK.start, WEEK.end)}):
            plant(session, rule)
        found = findings(session, WEEK.start, WEEK.end)
        before = [argue(session, one, found, WEEK).signs for one in found]
        perturb(session)
        after = [argue(session, one, found, WEEK).signs for one in found]
        yield Perturbed(list(zip(found, before, after, strict=True)), findings(session, WEEK.start, WEEK.end))


@pytest.fixture(scope="module")
def both(perturbed: Perturbed) -> Both:
    """The findings with their signs."""
    return perturbed.both


def test_every_sign_of_every_rule_turns_with_the_stored_figures(both: Both) -> None:
    """A yes that stays whatever was measured is no evidence: of an idle GPU it once said so at 66% activity.

    The kinds are those that there are rules of; one that is new is planted, or the table above does not know it.
    """
    turned: dict[str, set[str]] = {}
    for finding, before, after in both:
        still = {sign.what for sign in after if sign.holds}
        held_before = {sign.what for sign in before if sign.holds}
        assert not held_before & still, (finding.rule, held_before & still)
        turned.setdefault(finding.rule, set()).update(held_before)
    assert set(turned) == set(RULE_OF)
    assert {rule for rule, signs in turned.items() if not signs} == UNSIGNED
    for finding, before, _ in both:
        assert not before or finding.rule not in UNSIGNED, finding.rule


def test_every_sign_of_a_planted_finding_held(both: Both) -> None:
    """What is planted shows all that its rule looks for; a sign that never holds would turn for nobody.

    A second candidate is named where it cannot be left out, and holds for nobody.
    """
    planted = [(finding, before) for finding, before, _ in both if finding.subject in RULE_OF]
    assert len(planted) > 12
    for finding, before in planted:
        assert all(sign.holds is not False or sign.what.startswith(SECOND) for sign in before), (finding.rule, before)


def test_no_figure_stays_marked_as_the_limit(perturbed: Perturbed) -> None:
    """The arrow beside a figure, and the limit that the sentence names, are those figures' own."""
    marked = {finding.rule for finding, *_ in perturbed.both if any("<-" in line.verdict for line in finding.evidence)}
    of_input = {f"starved/{cause}" for cause in ("preprocessing", "network_storage", "host_to_device")}
    assert marked >= {*of_input, "headroom/beyond_policy"}
    assert perturbed.anew
    for finding in perturbed.anew:
        assert not [line for line in finding.evidence if "<-" in line.verdict], finding.rule
        for limit in (" are full", " is at 9", " have room"):
            assert limit not in finding.claim or finding.cause == "loader_software", finding.claim


def test_idle_findings_of_a_site_show_what_was_measured(both: Both) -> None:
    """What the ledger books as idle was idle: each of its signs holds, from the samples."""
    idle = [(finding, before) for finding, before, _ in both if finding.state == "held_idle"]
    assert len(idle) == 3
    for finding, before in idle:
        assert before, finding.rule
        assert all(sign.holds for sign in before), (finding.rule, before)


def test_what_is_not_kept_is_not_told_as_seen() -> None:
    """Samples that expired prove nothing: neither yes nor no."""
    for cause in ("never_used", "held_memory", "abandoned"):
        said = idle_signs(cause, IdleGpus(3_600_000, 0), [], LIMITS)
        assert said
        assert {(sign.seen, sign.holds) for sign in said} == {("not reported", None)}


def test_samples_that_are_rolled_up_say_the_same() -> None:
    """A finding of last month is argued from minutes: its samples are gone, its evidence is not."""
    fleet, marks = analysed_site(), {}
    make_tier_tables(fleet.store)
    for kept in ("samples", "minutes"):
        with fleet.store.session() as session:
            found = findings(session, WEEK.start, WEEK.end)
            idle = [one for one in found if one.state == "held_idle"]
            marks[kept] = {one.rule: [sign.holds for sign in argue(session, one, found, WEEK).signs] for one in idle}
        if kept == "samples":
            roll_up(fleet.store, 1e12, now_us=MONDAY + DAY)
            with fleet.store.session() as session:
                session.execute("DELETE FROM gpu_samples WHERE started_at < ?", [MONDAY + HOUR])
    assert marks["samples"] == marks["minutes"]
    assert len(marks["samples"]) == 3


@one_pass
def test_a_pause_at_work_is_no_abandoned_gpu(fleet: Fleet) -> Iterator[None]:
    """Samples that were corrected since the booking show it: less idle in a row than the rule asks for."""
    fleet.own("n1", ["G0"])
    fleet.hold("slurm/alpha/1", "n1", ["G0"], MONDAY, MONDAY + 3 * HOUR)
    fleet.sample("n1", "G0", MONDAY, MONDAY + HOUR)
    fleet.sample("n1", "G0", MONDAY + HOUR, MONDAY + 3 * HOUR, **IDLE)
    yield
    with fleet.store.session() as session:
        found = findings(session, WEEK.start, WEEK.end)
        (one,) = [each for each in found if each.cause == "abandoned"]
        before = {sign.what: sign.holds for sign in argue(session, one, found, WEEK).signs}
        session.execute(
            "UPDATE gpu_samples SET sm_active_ratio = 0.5 WHERE started_at % ? = 0 AND ends_with(node, ?)",
            [10 * MINUTE, fleet.names_end],
        )
        after = {sign.what: sign.holds for sign in argue(session, one, found, WEEK).signs}
    assert before == {"GPUs 1% active or less": True, "longest continuous": True}
    assert after == {"GPUs 1% active or less": True, "longest continuous": False}


@pytest.mark.parametrize(
    ("cause", "full", "free"),
    [
        ("preprocessing", {"busiest": 980, "workers": 4}, {"busiest": 300, "workers": 4}),
        ("storage", {"disk_busy": 950}, {"disk_busy": 600}),
        ("network_storage", {"mount_read": 10**9, "waiting": 600}, {"mount_read": 10**9, "waiting": 20}),
        ("host_to_device", {"pcie_in_kb": 9_000_000_000}, {"pcie_in_kb": 3_000_000}),
    ],
)
def test_a_figure_is_called_the_limit_where_it_is_one(cause: str, full: dict[str, int], free: dict[str, int]) -> None:
    """A disk that is half idle is not the limit because a verdict says storage."""
    for facts, is_limit in ((full, True), (free, False)):
        said = evidence("starved", cause, [stalled(place, **facts) for place in range(3)])
        assert ("<- the limit" in [line.verdict for line in said]) is is_limit, said


@one_pass
def test_what_another_run_did_on_a_gpu_is_no_work_of_this_one(fleet: Fleet) -> Iterator[None]:
    """A sweep's first run works on a GPU, its second never does: that it was used before says nothing of the second."""
    fleet.own("n1", ["G0"])
    for number, values in enumerate(({}, IDLE)):
        begin = MONDAY + 2 * number * HOUR
        fleet.hold(f"slurm/alpha/{number}", "n1", ["G0"], begin, begin + 2 * HOUR, name="sweep")
        fleet.sample("n1", "G0", begin, begin + 2 * HOUR, **values)
    yield
    with fleet.store.session() as session:
        found = findings(session, WEEK.start, WEEK.end)
        (unused,) = [one for one in found if one.cause == "never_used"]
        before = {sign.what: sign.holds for sign in argue(session, unused, found, WEEK).signs}
        session.execute(
            "UPDATE gpu_samples SET sm_active_ratio = 0.4 WHERE started_at >= ? AND started_at < ? "
            "AND ends_with(node, ?)",
            [MONDAY + 3 * HOUR, MONDAY + 4 * HOUR, fleet.names_end],
        )
        after = {sign.what: sign.holds for sign in argue(session, unused, found, WEEK).signs}
    assert before == {"GPUs 1% active or less": True, "longest continuous": True, "work, over 5%": True}
    assert after["GPUs 1% active or less"] is False
    assert after["work, over 5%"] is False
