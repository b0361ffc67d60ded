"""Gates judge the work that is asked for, of the team that asks: what else a profile holds neither helps nor harms."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from analyzer.capacity.gate.decided import Decided, Gate
from analyzer.capacity.gate.text import decided_text
from analyzer.capacity.profile.facts import Alternative, CapacityProfile, Represented, StateHours
from analyzer.errors import ConfigError
from analyzer.interfaces.cli.capacity_gate import gate as gate_command
from analyzer.text.layout import TextLayout
from tests.analyzer.capacity.gate_asking import HOUR_MS, SAID, SOON, decided, profile, run
from tests.analyzer.capacity.gate_signing import signed_text


def part(run_: Represented, team: str | None = None, **permille: int) -> Represented:
    """Return a run of a team whose GPU time went so, in thousandths; what is not named was useful."""
    klasses = {"productive": "useful", "unobserved": "unknown"}
    shares = {"productive": 1000 - sum(permille.values()), **permille}
    causes = {"productive": "compute", "starved": "preprocessing", "held_idle": "never_used", "unobserved": "gap"}
    booked = tuple(
        StateHours(klasses.get(state, "avoidable"), state, causes[state], run_.milliseconds * share // 1000, None)
        for state, share in shares.items()
        if share
    )
    return replace(run_, team=team, booked=booked)


def of_runs(*runs: Represented, team: str | None = "team-nlp", **changes: object) -> CapacityProfile:
    """Return a profile of these runs, whose whole is the sum of its parts."""
    together: dict[tuple[str, str, str | None], int] = {}
    for each in (each for one in runs for each in one.booked):
        key = (each.klass, each.state, each.cause)
        together[key] = together.get(key, 0) + each.milliseconds
    whole = sum(one.milliseconds for one in runs)
    silent = sum(ms for (_, state, _), ms in together.items() if state == "unobserved")
    return profile(
        team=team,
        runs=runs,
        booked=tuple(StateHours(*key, ms, None) for key, ms in together.items()),
        milliseconds=whole,
        micros=None,
        measured_ratio=round(1 - silent / whole, 6),
        advice=(),
        **changes,
    )


def other(number: str, name: str, hours: float = 600.0) -> Represented:
    """Return a long run of another name."""
    return replace(run(number, "2026-10-27T00:00", hours), name=name, stage="pre_training")


def gate(of: Decided, name: str) -> Gate:
    """Return one gate."""
    return next(each for each in of.gates if each.name == name)


OWN = tuple(run(str(number), f"2026-11-{number:02}T00:00", 20.0) for number in (1, 3, 5))


@pytest.mark.parametrize(
    ("name", "state", "bad", "value"),
    [
        ("useful", "starved", 600, "40.0%"),
        ("waiting", "starved", 200, "20.0%"),
        ("idle", "held_idle", 100, "10.0%"),
        ("measured", "unobserved", 100, "90.0%"),
    ],
)
def test_good_work_beside_it_does_not_hide_bad_work(name: str, state: str, bad: int, value: str) -> None:
    """A long run that does well would else carry every request of its team through the gates."""
    good = part(other("90001", "pretrain-7b"))
    one = of_runs(*(part(each, None, **{state: bad}) for each in OWN), good)
    found = gate(decided(one), name)
    assert (found.outcome, found.value.replace("\u00a0", " ")) == ("FAIL", value)
    assert gate(decided(one, work="pretrain-7b"), name).outcome == "PASS"


def test_bad_work_beside_it_does_not_stop_good_work() -> None:
    """And it is said which runs were judged, on the terminal too."""
    one = of_runs(*map(part, OWN), part(other("90001", "pretrain-7b"), starved=900))
    found = decided(one)
    assert [gate(found, name).outcome for name in ("useful", "waiting", "idle")] == ["PASS"] * 3
    assert found.evidence is not None
    assert found.evidence.judged == (
        "3 of the 4 runs of the profile, 960 of its 10,560 GPU-hours: llama-sft of team-nlp"
    )
    said = " ".join(decided_text(found, TextLayout(80, ascii=True), kept=False).split())
    assert f"based on {found.evidence.judged}" in said
    assert found.waits_permille == 0


def test_memory_of_other_work_beside_it_proves_nothing() -> None:
    """Who lays a run of 71 GiB beside his own of 5 would need no smaller GPU; a low peak is low for all of them."""
    mixed = of_runs(*map(part, OWN), part(other("90001", "pretrain-7b")))
    found = decided(mixed)
    assert gate(found, "memory").outcome == "N/E"
    assert "other work" in (gate(found, "memory").why or "")
    (remedy,) = [one for one in found.remedies if gate(found, "memory").label in one.gates]
    assert remedy.text == "a profile of runs of llama-sft alone: gpuledger capacity profile --runs"
    elsewhere = replace(other("90001", "pretrain-7b"), sku="A100-80GB")
    assert gate(decided(of_runs(*map(part, OWN), part(elsewhere))), "memory").outcome == "PASS"
    low = tuple(replace(each, peak_bytes=(each.total_bytes or 0) // 3) for each in mixed.memory)
    assert gate(decided(replace(mixed, memory=low)), "memory").outcome != "N/E"


def test_a_cheaper_kind_that_other_work_tried_is_not_tried() -> None:
    """The profile says that some run of it was on an A100, and not which."""
    tried = Alternative("A100-80GB", "another kind of GPU", True, True, 1_100_000, "1 run of this work had it")
    alone, mixed = of_runs(*map(part, OWN)), of_runs(*map(part, OWN), part(other("90001", "pretrain-7b")))
    outcomes = [gate(decided(replace(one, alternatives=(tried,))), "cheaper").outcome for one in (alone, mixed)]
    assert outcomes == ["PASS", "N/E"]


def test_a_profile_that_is_the_work_says_nothing_of_parts() -> None:
    """Where every run counts there is nothing to tell apart."""
    evidence = decided().evidence
    assert evidence is not None
    assert evidence.judged == ""


def test_where_a_profile_has_no_parts_the_whole_is_judged_and_said() -> None:
    """A run without its bookings can be judged by the profile's alone."""
    one = of_runs(*map(part, OWN), part(other("90001", "pretrain-7b"), starved=900))
    bare = replace(one, runs=tuple(replace(each, booked=()) for each in one.runs))
    found = decided(bare)
    assert gate(found, "waiting").outcome == "FAIL"
    assert found.evidence is not None
    assert found.evidence.judged.endswith("; where the time went is known only for all runs together")


def test_of_mixed_runs_those_of_the_team_count() -> None:
    """A profile of no one team is evidence of the team that asks by that team's own GPU-hours alone."""
    ours = part(run("1", "2026-11-01T00:00", 2.0), "team-nlp", starved=100)
    theirs = tuple(part(each, "team-vision") for each in OWN)
    found = decided(of_runs(ours, *theirs, team=None))
    runs = gate(found, "runs")
    assert (runs.outcome, runs.value) == ("FAIL", "1, 32.0")
    assert gate(found, "waiting").value.replace("\u00a0", " ") == "10.0%"
    assert found.evidence is not None
    assert (found.evidence.runs, found.evidence.milliseconds) == (1, 32 * HOUR_MS)


def test_runs_that_are_nobodys_prove_nothing() -> None:
    """Whose they are is not known: that is no pass, and what would be is said."""
    found = decided(of_runs(*map(part, OWN), team=None))
    runs = gate(found, "runs")
    assert (runs.outcome, runs.value) == ("N/E", "whose is not known")
    assert found.verdict == "INCOMPLETE"
    assert "teams file" in next(each.text for each in found.remedies if runs.label in each.gates)


def test_another_teams_runs_are_refused() -> None:
    """Also where the profile itself names no team."""
    with pytest.raises(ConfigError, match="are of team-vision, the request of team-nlp"):
        decided(of_runs(*(part(each, "team-vision") for each in OWN), team=None))


def test_all_that_is_named_must_be_there() -> None:
    """Else a request for two works passes by one of them."""
    with pytest.raises(ConfigError, match="the profile has no run of pretrain-7b: it has llama-sft"):
        decided(work=["llama-sft", "pretrain-7b"])


def test_page_one_shows_where_the_time_of_the_judged_runs_went(tmp_path: Path) -> None:
    """A sentence that says 40% above a table that says 4% would be taken for a mistake."""
    one = of_runs(*(part(each, "team-nlp", starved=400) for each in OWN), part(other("90001", "x"), "b"), team=None)
    one = replace(one, until_us=time.time_ns() // 1000)
    (tmp_path / "p.json").write_text(signed_text(one))
    (tmp_path / "r.json").write_text(json.dumps(SAID | {"starts": SOON}))
    words = [str(tmp_path / "r.json"), "--profile", str(tmp_path / "p.json"), "--out", str(tmp_path / "page.html")]
    assert gate_command(words) == 1
    html = (tmp_path / "page.html").read_text("utf-8").replace("\u00a0", " ")
    went = html.partition("<caption>Where the time of the evaluated runs went</caption>")[2].partition("</table>")[0]
    assert "<td>input starvation</td>" in went
    assert '<td class="number">40.0</td>' in went
    assert "Based on 3 of the 4 runs of the profile, 960 of its 10,560 GPU-hours" in html
    assert "measured: b, team-nlp;" in html


def test_a_stage_is_work_too() -> None:
    """Where no run is called so."""
    one = of_runs(*map(part, OWN), part(other("90001", "pretrain-7b"), starved=900))
    found = decided(one, work="fine_tuning").evidence
    assert found is not None
    assert found.run_names == ("llama-sft",)


def test_the_size_of_a_run_is_that_of_this_work() -> None:
    """The newest run of the profile may be of something else."""
    newest = replace(part(other("90001", "pretrain-7b", 1.0)), gpus=72, started_at=OWN[-1].started_at + 1)
    one = of_runs(*map(part, OWN), newest)
    assert gate(decided(one, gpus_per_run=None), "scaling").label == "scaling at 16 GPUs per run"


def test_how_other_work_scales_says_nothing_of_this() -> None:
    """A table of several sizes is of one kind of work."""
    one = of_runs(*map(part, OWN), part(other("90001", "pretrain-7b")), scaling_of="pretrain-7b")
    found = gate(decided(one), "scaling")
    assert (found.outcome, found.value) == ("N/E", "of other work")
    assert gate(decided(one, work="pretrain-7b"), "scaling").outcome == "PASS"
