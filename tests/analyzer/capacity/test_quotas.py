"""Quotas of Kueue and Slurm beside what is held and waits: who waits while whose GPUs are unused, and what helps."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from analyzer.capacity.quotas import Balance, Quota, QuotaReport, Quotas, Use, balanced, read_quotas, read_use
from analyzer.errors import ConfigError
from analyzer.interfaces.questions.registry import answer
from analyzer.ledger.coverage import ledger_end
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.capacity.planner_small_site import fill
from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet
from tests.dashboards.serving import served

SSHARE = """Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare
root|||0.000000|100|1.000000|
 root|root|1|0.100000|0|0.000000|1.0
 nlp||5|0.500000|90|0.900000|
  nlp-a||1|1.000000|90|0.900000|
  nlp-a|ann|1|1.000000|90|0.900000|0.1
 vision||4|0.400000|10|0.100000|
"""


def cluster_queue(
    name: str, gpus: object, cohort: str | None = "research", preemption: str = "Never", **limits: object
) -> dict[str, Any]:
    """Return a ClusterQueue as the API has it."""
    cover = {"name": "nvidia.com/gpu", "nominalQuota": gpus, **limits}
    cpu = {"name": "cpu", "nominalQuota": "640"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": name},
        "spec": {
            **({"cohort": cohort} if cohort else {}),
            "preemption": {"reclaimWithinCohort": preemption},
            "resourceGroups": [{"coveredResources": ["cpu", "nvidia.com/gpu"],
                                "flavors": [{"name": "h100", "resources": [cpu, cover]}]}],
        },
    }  # fmt: skip


def local_queue(team: str, of: str) -> dict[str, Any]:
    """Return the LocalQueue through which a namespace uses a ClusterQueue."""
    return {"kind": "LocalQueue", "metadata": {"name": "main", "namespace": team}, "spec": {"clusterQueue": of}}


def reported(tmp_path: Path, objects: list[dict[str, Any]], uses: list[Use], free: int) -> QuotaReport:
    """Return the report of queues `nlp` and `vision`, used through the namespaces of these names."""
    items = [*objects, local_queue("nlp", "nlp"), local_queue("vision", "vision")]
    path = tmp_path / "kueue.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return balanced(read_quotas(path), uses, free, 128)


def use(team: str, held: int, waits: int = 0, queue: str | None = "main", qos: str | None = None) -> Use:
    """Return what runs of a team hold and wait for."""
    return Use(team, queue, qos, held, waits, 1 if waits else 0)


def row(report: QuotaReport, name: str) -> Balance:
    """Return one quota of a report."""
    return next(balance for balance in report.balances if balance.name == name)


def test_borrowing_starts_what_others_leave_and_is_free(tmp_path: Path) -> None:
    """Vision holds all of its own, and waits beside 24 GPUs that nlp leaves; 16 of these are free."""
    queues = [cluster_queue("nlp", 64), cluster_queue("vision", "16")]
    report = reported(tmp_path, queues, [use("nlp", 40), use("vision", 16, 20)], 16)
    vision = row(report, "vision")
    assert (vision.guaranteed_gpus, vision.borrowed_gpus, vision.reclaimed_gpus) == (16, 16, 0)
    assert vision.words == (
        "vision waits for 20 GPUs (1 run) while nlp leaves 24 of what is theirs unused; borrowing would start 16 now."
    )
    assert row(report, "nlp").unused_gpus == 24
    assert row(report, "nlp").words is None


@pytest.mark.parametrize(
    ("nlp", "vision", "borrowed", "words"),
    [
        (cluster_queue("nlp", 64, lendingLimit=8), cluster_queue("vision", 16), 8, "borrowing would start 8 now"),
        (cluster_queue("nlp", 64), cluster_queue("vision", 16, borrowingLimit=4), 4, "borrowing would start 4 now"),
        (cluster_queue("nlp", 64), cluster_queue("vision", 16, borrowingLimit=0), 0, "holds all of the 16 that it may"),
        (cluster_queue("nlp", 64, "other"), cluster_queue("vision", 16), 0, "none is to be lent"),
        (cluster_queue("nlp", 64), cluster_queue("vision", 16, None), 0, "holds all of the 16 that it may"),
    ],
)
def test_what_may_not_be_lent_or_borrowed_is_not_offered(
    tmp_path: Path, nlp: dict[str, Any], vision: dict[str, Any], borrowed: int, words: str
) -> None:
    """Limits of both sides hold, and nothing is lent across cohorts."""
    found = row(reported(tmp_path, [nlp, vision], [use("nlp", 40), use("vision", 16, 20)], 24), "vision")
    assert found.borrowed_gpus == borrowed
    assert words in (found.words or "")


@pytest.mark.parametrize(("policy", "refused"), [("Any", False), ("Never", True)])
def test_who_waits_within_its_own_guarantee_can_reclaim(tmp_path: Path, policy: str, refused: bool) -> None:
    """Vision has lent 12 of its 16, and waits for 8; nothing is free."""
    queues = [cluster_queue("nlp", 64), cluster_queue("vision", 16, preemption=policy)]
    found = row(reported(tmp_path, queues, [use("nlp", 76), use("vision", 4, 8)], 0), "vision")
    assert (found.unused_gpus, found.borrowed_gpus, found.reclaimed_gpus) == (12, 0, 8)
    assert "reclaiming what others hold beyond theirs would start 8" in (found.words or "")
    assert ("reclaimWithinCohort does not allow" in (found.words or "")) is refused


def test_free_gpus_of_its_own_need_neither(tmp_path: Path) -> None:
    """Then it waits for something else, and the sentence says that they are its own."""
    queues = [cluster_queue("nlp", 64), cluster_queue("vision", 16)]
    found = row(reported(tmp_path, queues, [use("nlp", 64), use("vision", 0, 8)], 16), "vision")
    assert (found.borrowed_gpus, found.reclaimed_gpus) == (0, 0)
    assert "8 free GPUs are within its own guarantee" in (found.words or "")


def test_what_a_queue_waits_for_itself_is_not_lent(tmp_path: Path) -> None:
    """Both wait; nlp's own 24 are first its own."""
    queues = [cluster_queue("nlp", 64), cluster_queue("vision", 16)]
    report = reported(tmp_path, queues, [use("nlp", 40, 20), use("vision", 16, 20)], 24)
    assert row(report, "vision").borrowed_gpus == 4


def test_cohorts_lend_up_their_tree_and_what_is_their_own(tmp_path: Path) -> None:
    """A cohort in a cohort shares with all below the top one; its own quota is lent to any of them."""
    team = {"kind": "Cohort", "metadata": {"name": "team"}, "spec": {"parentName": "top"}}
    top = cluster_queue("top", 10, None) | {"kind": "Cohort"}
    vision = cluster_queue("vision", 16, None)
    vision["spec"]["cohortName"] = "team"
    nlp = cluster_queue("nlp", 8, "top")
    report = reported(tmp_path, [team, top, nlp, vision], [use("nlp", 8), use("vision", 16, 30)], 40)
    assert (row(report, "vision").cohort, row(report, "vision").borrowed_gpus) == ("top", 10)
    around = {"kind": "Cohort", "metadata": {"name": "top"}, "spec": {"parentName": "team"}}
    with pytest.raises(ConfigError, match="within itself"):
        reported(tmp_path, [team, around, vision], [], 0)


@given(
    quotas=st.lists(
        st.tuples(st.integers(0, 64), st.none() | st.integers(0, 64), st.none() | st.integers(0, 64)), max_size=5
    ),
    counts=st.lists(st.tuples(st.integers(0, 96), st.integers(0, 96)), min_size=5, max_size=5),
    free=st.integers(0, 64),
)
def test_nothing_is_promised_that_is_not_there(
    quotas: list[tuple[int, int | None, int | None]], counts: list[tuple[int, int]], free: int
) -> None:
    """What borrowing starts is free and may be held; both together are no more than what waits."""
    every = tuple(
        Quota(f"q{place}", "all", own, None if extra is None else own + extra, lends,
              runs_of=frozenset({(f"q{place}", None)}))
        for place, (own, extra, lends) in enumerate(quotas)
    )  # fmt: skip
    uses = [use(f"q{place}", held, waits) for place, (held, waits) in enumerate(counts)]
    for quota, found in zip(every, balanced(Quotas(every, 0), uses, free, 128).balances, strict=True):
        assert 0 <= found.borrowed_gpus <= free
        assert 0 <= found.borrowed_gpus + found.reclaimed_gpus <= found.waiting_gpus
        assert quota.most is None or found.borrowed_gpus <= max(0, quota.most - found.held_gpus)
        lent = sum(own if lends is None else min(own, lends) for own, _, lends in quotas)
        assert found.borrowed_gpus <= lent
        assert found.reclaimed_gpus <= found.unused_gpus


def test_a_stopped_queue_says_so(tmp_path: Path) -> None:
    """No GPU helps it."""
    vision = cluster_queue("vision", 16)
    vision["spec"]["stopPolicy"] = "Hold"
    found = row(reported(tmp_path, [cluster_queue("nlp", 64), vision], [use("vision", 0, 8)], 80), "vision")
    assert (found.borrowed_gpus, found.reclaimed_gpus) == (0, 0)
    assert (found.words or "").endswith("its queue is stopped (stopPolicy).")


def test_flavors_are_added_and_said_to_be(tmp_path: Path) -> None:
    """Which of them a run waits for the ledger does not know."""
    vision = cluster_queue("vision", 16)
    flavors = vision["spec"]["resourceGroups"][0]["flavors"]
    flavors.append({"name": "a100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]})
    report = reported(tmp_path, [vision], [use("other", 3)], 0)
    assert row(report, "vision").guaranteed_gpus == 24
    assert report.notes == (
        "Quotas of several flavors are added up: which kind of GPU a run waits for is not compared.",
        "Runs of no account or queue of these quotas hold 3 GPUs, and wait for 0 GPUs.",
    )


def test_yaml_says_the_same_as_json(tmp_path: Path) -> None:
    """One document or several, as kubectl and people write them."""
    items = [cluster_queue("nlp", 64), cluster_queue("vision", 16), local_queue("nlp", "nlp")]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "list.yaml").write_text(yaml.safe_dump({"kind": "List", "items": items}))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "each.yaml").write_text(yaml.safe_dump_all(items))
    assert read_quotas(tmp_path / "a").quotas == read_quotas(tmp_path / "b").quotas


def test_fair_shares_are_of_the_fleet_and_of_accounts_below(tmp_path: Path) -> None:
    """Of 128 GPUs nlp is due 64 and holds 100 through an account below it; vision is due 51, holds 20 and waits."""
    (tmp_path / "sshare.txt").write_text(SSHARE)
    uses = [use("nlp-a", 100, queue="gpu"), use("vision", 20, 16, queue="gpu")]
    report = balanced(read_quotas(tmp_path), uses, 8, 128)
    nlp, vision = row(report, "nlp"), row(report, "vision")
    assert (nlp.guaranteed_gpus, nlp.held_gpus, vision.guaranteed_gpus) == (64, 100, 51)
    assert (vision.unused_gpus, vision.reclaimed_gpus) == (31, 8)
    assert "8 free GPUs are within its own guarantee" in (vision.words or "")
    assert "would start 8, which no QOS may (Preempt)" in (vision.words or "")
    (tmp_path / "qos.txt").write_text("Name|Preempt|GrpTRES\nnormal||\nhigh|normal|cpu=640,gres/gpu=16\n")
    (tmp_path / "assoc.txt").write_text(
        "Account|User|GrpTRES\nvision||gres/gpu:h100=20,gres/gpu:a100=4\nnlp-a||gres/gpu=90\n"
    )
    report = balanced(read_quotas(tmp_path), [*uses, use("vision", 16, 4, "gpu", "high")], 8, 128)
    assert row(report, "vision").guaranteed_gpus == 24
    assert "it holds all of the 24 that it may" in (row(report, "vision").words or "")
    assert "it holds all of the 16 that it may" in (row(report, "QOS high").words or "")
    assert report.notes == ("Limits of accounts below the first level (nlp-a) are not applied.",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (SSHARE.replace("0.400000", "much"), "line 7: NormShares is 'much': not a share of 0 to 1"),
        (SSHARE.replace("\n ", "\n").replace("\n ", "\n"), "shares of the first level are more than 1"),
        (SSHARE + "short|\n", "line 8: 2 cells, and the header has 7"),
        ("JobID|State\n1|PENDING\n", "line 1: not the columns of sshare"),
        ("[]", "has no ClusterQueue of Kueue"),
        ("{", "q: "),
        ("a: &b 1\n", "anchors and aliases"),
        (json.dumps(cluster_queue("nlp", "many")), "nlp: nominalQuota must be a number"),
        ("\xff\n", "has no ClusterQueue"),
    ],
)
def test_what_is_no_quota_is_refused_by_its_place(tmp_path: Path, content: str, words: str) -> None:
    """The file, and the line or the object, are named."""
    (tmp_path / "q").write_text(content)
    with pytest.raises(ConfigError, match=words):
        read_quotas(tmp_path / "q")


def test_the_ledger_says_who_holds_and_waits(tmp_path: Path) -> None:
    """The command, the page and the answer of the API stand on the same figures; a key of a team sees none of them."""
    fleet = Fleet()
    fleet.add("allocations", [{
        "run_id": "slurm/a/w", "submitted_at": MONDAY + HOUR, "requested_gpus": 2, "account": "vision", "queue": "gpu",
        "name": "waiting", "scheduler": "slurm", "labels": '{"qos":"high"}',
    }])  # fmt: skip
    fill(fleet)
    (tmp_path / "sshare.txt").write_text(SSHARE)
    settings = replace(Settings(), quotas=tmp_path)
    with fleet.store.session() as session:
        uses = read_use(session, ledger_end(session))
        assert [each for each in uses if each.account == "vision"] == [Use("vision", "gpu", "high", 0, 2, 1)]
        assert sum(each.held_gpus for each in uses) == 3
        text = answer(Reader(session, settings), Request("quotas", None))
    assert "vision waits for 2 GPUs (1 run)" in " ".join(text.split())
    assert "Runs of no account or queue of these quotas hold 3 GPUs" in " ".join(text.split())
    assert all(len(line) <= 80 for line in text.splitlines())
    config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), settings, analyze_seconds=None)
    with served(create_server(config, fleet.store)) as client:
        assert "vision waits for 2 GPUs (1 run)" in client.get("/requests").text
        (tmp_path / "broken.txt").write_text("{")
        assert "broken.txt" in client.get("/requests").text


def test_without_quotas_the_command_says_how_to_name_them() -> None:
    """Nobody is told that all is fair where nothing was read."""
    fleet = Fleet()
    fill(fleet)
    with fleet.store.session() as session, pytest.raises(ConfigError, match=r"name their folder, quotas = .*gate\.md"):
        answer(Reader(session, Settings()), Request("quotas", None))
