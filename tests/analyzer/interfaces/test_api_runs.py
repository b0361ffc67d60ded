"""Runs, their profiles and their series."""

from pathlib import Path

import pytest

from tests.analyzer.interfaces.api_sites import LATER, Site, settings, site
from tests.analyzer.ledger.fleet import HOUR, MONDAY

RUNS = 14


def test_runs_are_listed_once(small: Site) -> None:
    """The newest first; pages of any size hold the same runs in the same order."""
    whole = small.json("/v1/runs?limit=1000")["items"]
    assert len(whole) == RUNS
    assert small.items("/v1/runs?limit=4") == whole
    assert all(run["started_at_iso"].endswith("Z") for run in whole)


def test_runs_are_found_by_what_is_known_of_them(small: Site) -> None:
    """Filters narrow the list, and a period keeps those that held a GPU in it."""
    assert {run["team"] for run in small.json("/v1/runs?team=holders")["items"]} == {"holders"}
    assert [run["name"] for run in small.json("/v1/runs?name=notebook")["items"]] == ["notebook"]
    assert [run["subject"] for run in small.json("/v1/runs?exit_status=failed")["items"]] == ["failing"]
    assert len(small.json("/v1/runs?since=2025-11-10")["items"]) == RUNS
    assert small.json("/v1/runs?since=2025-10-01")["items"] == []
    assert len(small.json("/v1/runs?running=false")["items"]) == RUNS


@pytest.mark.parametrize("name", ["slurm/alpha/storage", "alpha/storage", "storage", "slurm%2Falpha%2Fstorage"])
def test_a_run_answers_to_its_names(small: Site, name: str) -> None:
    """An id has slashes; in an address they may be written as they are."""
    document = small.json(f"/v1/runs/{name}")
    assert document["facts"]["run_id"] == "slurm/alpha/storage"
    assert sum(entry["cost_micros"] for entry in document["entries"]) == document["total"]["cost_micros"]
    assert document["recommendations"]


def test_the_last_run_is_one(small: Site) -> None:
    """`last` is what one has just started."""
    assert small.json("/v1/runs/last")["facts"]["run_id"].startswith("slurm/alpha/")
    assert small.get("/v1/runs/of-nobody").status_code == 404


def test_a_profile_says_where_time_went_and_on_what_evidence(small: Site) -> None:
    """The one document that is kept: amounts, distribution, signals, findings."""
    profile = small.json("/v1/runs/preprocessing/profile")
    assert (profile["runs"], profile["run_ids"], profile["gpus"]) == (1, ["slurm/alpha/preprocessing"], 1)
    assert sum(entry["milliseconds"] for entry in profile["entries"]) == profile["total"]["milliseconds"] == 7_200_000
    signals = {signal["name"]: signal for signal in profile["signals"]}
    assert signals["worker_busiest_cpu_ratio"]["peak"] == 0.98
    assert signals["utilization_ratio"]["mean"] == 0.5
    assert "tensor_active_ratio" not in signals  # nobody told
    assert profile["activity"]["p50_ratio"] == 0.45
    assert [finding["cause"] for finding in profile["evidence"]] == ["preprocessing"]


def test_a_profile_of_several_runs_is_of_them_all(small: Site) -> None:
    """A team's, or those of some names."""
    team = small.json("/v1/profiles?team=holders")
    assert team["runs"] == len(small.json("/v1/runs?team=holders")["items"])
    two = small.json("/v1/profiles?run=storage&run=preprocessing")
    one = [small.json(f"/v1/runs/{name}/profile")["total"]["milliseconds"] for name in ("storage", "preprocessing")]
    assert two["total"]["milliseconds"] == sum(one)
    assert {finding["cause"] for finding in two["evidence"]} == {"storage", "preprocessing"}


def test_series_have_a_point_for_each_step_and_gaps_stay_open(small: Site) -> None:
    """A chart asks for what fits on it; what was not told is null."""
    (series,) = small.json("/v1/runs/notebook/series?column=sm_active_ratio&points=24")["items"]
    assert (series["kind"], series["column"], series["step"]) == ("gpu", "sm_active_ratio", 360_000_000)
    assert len(series["mean"]) == len(series["least"]) == len(series["most"]) == 20
    assert series["mean"][0] == pytest.approx(0.1)
    assert series["mean"][-1] == pytest.approx(0.0)
    other = small.json("/v1/runs/notebook/series?column=power_watts&host_column=cpu_busy_ratio")["items"]
    assert [one["kind"] for one in other] == ["gpu", "host"]
    assert all(value is None for one in other for value in one["mean"])


def test_series_end_with_the_run(tmp_path: Path) -> None:
    """What the next one does on the same GPU, within the same hour, is the next one's."""
    with site(tmp_path) as small:
        fleet = small.fleet
        fleet.own("t0", ["t0g0"])
        half = MONDAY + HOUR // 2
        fleet.hold("slurm/alpha/first", "t0", ["t0g0"], MONDAY, half)
        fleet.hold("slurm/alpha/second", "t0", ["t0g0"], half, MONDAY + HOUR)
        fleet.sample("t0", "t0g0", MONDAY, MONDAY + HOUR)
        fleet.analyze(now=LATER, settings=settings(tmp_path))
        for name, told in (("first", [True, False]), ("second", [False, True])):
            start = f"start={MONDAY}&end={MONDAY + HOUR}"
            document = small.get(f"/v1/runs/{name}/series?{start}&points=61&column=utilization_ratio")
            values = document.json()["items"][0]["mean"]
            assert [value is not None for value in values] == [each for each in told for _ in range(len(values) // 2)]


def test_series_are_bounded(small: Site) -> None:
    """A run of a thousand GPUs is not sent whole; what was left out is counted."""
    document = small.json("/v1/runs/crossing/series?subjects=3&column=utilization_ratio&column=sm_active_ratio")
    assert (len(document["items"]), document["left_out"]) == (6, 5)
    assert small.get("/v1/runs/crossing/series?start=1&end=2").status_code == 404


def shape(part: object, name: str = "") -> set[str]:
    """Return the paths of all fields of a document; those of a list's items once."""
    if isinstance(part, list):
        return {path for item in part for path in shape(item, f"{name}[]")}
    if isinstance(part, dict):
        return {name, *(path for key, value in part.items() for path in shape(value, f"{name}.{key}"))}
    return {name}


@pytest.mark.parametrize("run", ["crossing", "storage", "notebook"])
def test_the_command_and_the_api_say_one_document(small: Site, run: str) -> None:
    """A program that reads one can read the other: the same fields, of the same values."""
    api = small.json(f"/v1/runs/{run}?details=true")
    command = small.json(f"/v1/read?what=run&format=json&subject={run}")
    assert shape(command) == shape(api)
    assert command == api | {"generation": None}
    brief = small.json(f"/v1/runs/{run}")
    assert set(brief) == set(command)
    assert brief["findings"] == command["findings"]
