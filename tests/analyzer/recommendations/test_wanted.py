"""Two readings of recommendations: of a run, quick and of the ledger alone, and of the fleet, planned as a whole."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.tables import TABLES
from agent.wire.units import WEEK_US
from analyzer.findings.finding import Finding
from analyzer.findings.ledger_findings import findings
from analyzer.interfaces.text.recommendation_files import ticket
from analyzer.interfaces.text.recommendation_text import recommendation_text
from analyzer.period import Period
from analyzer.queries.generation import ByGeneration, Generations
from analyzer.recommendations.advise import AdviceOptions, AdviceRequest, LossSource, recommendations
from analyzer.recommendations.fleet_plan.fleet_plan import plans
from analyzer.recommendations.proposal import Proposal, against
from analyzer.recommendations.recommendation import ASSUMED, Recommendation
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Advising, Settings
from analyzer.text.as_json import plain_data
from analyzer.text.layout import TextLayout
from collector.store.session import Session
from tests.analyzer.findings.health_fleets import TRAINING
from tests.analyzer.interfaces.test_api_no_samples import FACTS
from tests.analyzer.ledger.fleet import DAY, HOUR, Fleet, priced
from tests.analyzer.recommendations.test_kinds_of_fleets import on_demand
from tests.analyzer.small_site import CROSSING_HOSTS, END, IDLE, T, _exchange, _host, analysed_site, small_site

CROSSING = "slurm/alpha/crossing"
PERIOD = Period(T, T + WEEK_US, "2025-W46", "UTC")
PLANNED = AdviceRequest(plan=plans)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, Settings]]:
    """The small site, whose one run crosses racks, with four more nodes free in rack-1, analysed and priced."""
    fleet = small_site()
    for number in range(4):
        (gpu,) = _host(fleet, f"y{number}", "rack-1")
        fleet.sample(f"y{number}", gpu, T, END, **IDLE)
    settings = priced(Path(tmp_path_factory.mktemp("prices")), H100_80GB=2.60)
    fleet.analyze(settings=settings)
    yield fleet, settings
    fleet.store.close()


@pytest.fixture(scope="module")
def session(made: tuple[Fleet, Settings]) -> Iterator[Session]:
    """A session of it."""
    with made[0].store.session() as opened:
        yield opened


@pytest.fixture(scope="module")
def found(session: Session) -> list[Finding]:
    """What was found of it."""
    return findings(session, T, END)


def test_a_move_of_the_plan_stands_on_the_finding_whose_seconds_it_gives_back(
    session: Session, found: list[Finding]
) -> None:
    """With its id, its subject and its actor: else nothing would tell that two promise the same."""
    (crossing,) = [one for one in found if one.cause == "cross_rack"]
    advice = recommendations(session, found, T, END, PLANNED)
    (moved,) = [one for one in advice if one.kind == "co_locate"]
    assert (moved.finding_ids, moved.subject, moved.actor) == ((crossing.id,), crossing.subject, crossing.actor)
    assert moved.run_ids == (CROSSING,)
    assert moved.saves_micros is not None
    assert crossing.at_stake_micros is not None
    assert moved.saves_micros.p95 <= crossing.at_stake_micros * WEEK_US // (END - T)


def test_of_two_that_answer_one_loss_one_stands_and_names_the_other(
    session: Session, made: tuple[Fleet, Settings], found: list[Finding]
) -> None:
    """What is recommended of findings saves together no more than is at stake; what else could be done is not lost."""
    reader = Reader(session, made[1])
    advice = reader.all_advice(found, Period(T, END, "two hours", "UTC"))
    rivals = [one for one in advice if one.cause == "cross_rack" and one.held_back is None]
    assert {one.kind for one in rivals} == {"reorder_ranks", "co_locate"}
    (best,) = [one for one in rivals if one.stands]
    (other,) = [one for one in rivals if not one.stands]
    assert other.instead_of == best.id
    assert [one.id for one in best.alternatives] == [other.id]
    assert other.alternatives == ()
    on_findings = [one for one in advice if one.stands and one.finding_ids]
    saved = sum(one.saves_milliseconds.p50 for one in on_findings)
    assert saved <= sum(one.milliseconds for one in found if not one.suspicion) * WEEK_US // (END - T)
    shown = recommendation_text(best, "USD", "UTC", TextLayout(ascii=True))
    assert f"alternatives  {other.id} " in shown
    assert "(saves less: $" in shown.replace("\n                ", " ")
    assert f"| Alternatives | {other.id} " in ticket(best, "USD", "UTC")
    assert plain_data(best)["alternatives"][0]["id"] == other.id


def test_a_run_whose_ranks_are_in_order_is_moved_once_to_the_hosts_of_the_plan() -> None:
    """Its finding's own rule proposes a rack, too: one change under one id, and the plan knows who else wants it."""
    fleet = Fleet()
    for node in ("r0", "r1"):
        _exchange(fleet, "slurm/alpha/inside", node, "rack-1", int(node[1:]), 10)
    for rank, node in enumerate(CROSSING_HOSTS):
        _exchange(fleet, CROSSING, node, f"rack-{1 + rank // 4}", rank, 2.5)
    for number in range(4):
        (gpu,) = _host(fleet, f"y{number}", "rack-2")
        fleet.sample(f"y{number}", gpu, T, END, **IDLE)
    fleet.analyze()
    with fleet.store.session() as session:
        found = findings(session, T, END)
        ((alone,), (one,)) = (
            [each for each in recommendations(session, found, T, END, wanted) if each.cause == "cross_rack"]
            for wanted in (AdviceRequest(), PLANNED)
        )
    assert (alone.kind, one.kind, one.id) == ("co_locate", "co_locate", alone.id)
    assert one.title == "run in one rack, rack-2, instead of 2"
    assert one.move is not None
    assert one.move.to is not None
    assert set(one.move.to.nodes) == {*CROSSING_HOSTS[4:], "y0", "y1", "y2", "y3"}
    assert "#SBATCH --nodelist=" in one.artefact
    fleet.store.close()


def test_a_run_is_advised_of_the_ledger_alone() -> None:
    """Its page comes at once however much is kept: no sample, no notice, no plan, and only its own findings."""
    fleet = analysed_site()
    with fleet.store.session() as session:
        for table in set(TABLES) - FACTS:
            session.execute(f"DROP TABLE {table}")
        own = findings(session, T, END, CROSSING)
        asked = AdviceRequest(is_of_fleet=False, plan=lambda *_: pytest.fail("a run's page makes no plan"))
        advice = recommendations(session, own, T, END, asked)
        assert [(one.kind, one.run_ids) for one in advice] == [("reorder_ranks", (CROSSING,))]
        of_run = Reader(session, Settings()).run_advice(own, Period(T, END, CROSSING, "UTC"))
    assert [one.id for one in of_run] == [one.id for one in advice]
    fleet.store.close()


def test_the_settings_say_for_how_long_a_plan_is_searched(session: Session, found: list[Finding]) -> None:
    """None where it is 0; and of a run none at all."""
    none = Settings(advising=Advising(plan_seconds=0))
    assert AdviceOptions(none).of_fleet(session).plan is None
    assert AdviceOptions(Settings()).of_run(session).plan is None
    assert AdviceOptions(Settings()).of_fleet(session).plan is not None
    kinds = {one.kind for one in recommendations(session, found, T, END, AdviceOptions(none).of_fleet(session))}
    assert "co_locate" not in kinds


def test_a_server_makes_the_fleets_list_once_of_one_state_of_the_ledger(made: tuple[Fleet, Settings]) -> None:
    """Pages, reports and the API ask for the same: one answers the others by what it made; a run's is its own."""
    kept, asked = ByGeneration(Generations(made[1])), list[bool]()
    loss_source = _recorded(asked)
    day = Period(T, T + DAY, "Monday", "UTC")
    lists = []
    with made[0].store.session() as session:
        for _ in range(2):
            reader = Reader(session, made[1], loss_source, kept=kept)
            lists.append(reader.all_advice(reader.findings(day), day))
        assert (asked, lists[0]) == ([True], lists[1])
        reader.run("crossing")
        reader.all_advice(reader.findings(day)[1:], day)
        assert asked == [True, False, True]


def test_a_command_makes_the_fleets_list_once_for_all_its_parts(made: tuple[Fleet, Settings]) -> None:
    """Without a server, too: the week, its offers and the observations beside it come of one look at each."""
    asked = list[bool]()
    day = Period(T, T + DAY, "Monday", "UTC")
    with made[0].store.session() as session:
        reader = Reader(session, made[1], _recorded(asked))
        offered = reader.offer(day)
        assert [one.id for one in reader.week(day).recommendations] == [one.id for one in offered.advice if one.stands]
        assert asked == [True]
        assert reader.looked(day) is reader.looked(day)
        assert Reader(session, made[1], _recorded(asked)).offer(day) == offered
        assert asked == [True, True]


def _recorded(asked: list[bool]) -> LossSource:
    """Return what the analyzer finds and advises; each time that it does, `asked` gets whether of the fleet."""

    def recommend(
        session: Session, found: list[Finding], start: int, end: int, wanted: AdviceRequest
    ) -> list[Recommendation]:
        asked.append(wanted.is_of_fleet)
        return recommendations(session, found, start, end, wanted)

    return replace(LossSource.own(), recommendations=recommend)


def test_spot_is_judged_by_the_prices_of_the_site(tmp_path: Path) -> None:
    """A ledger that has no price of spot leaves the question open; the price file answers it."""
    fleet, _ = on_demand(tmp_path, taken=4)
    day = Period(T, T + DAY, "Monday", "UTC")
    with fleet.store.session() as session:
        minutes = [(TRAINING, hour, 10**9) for hour in range(T, T + DAY, HOUR)]
        session.load("checkpoints", ("run_id", "minute", "written_bytes"), minutes)
        session.execute("UPDATE ledger SET state = 'checkpointing', cause = 'storage' WHERE run_id = ? AND hour = ?",
                        [TRAINING, T])  # fmt: skip
        kinds = [
            {one.kind for one in Reader(session, settings).all_advice([], day)}
            for settings in (Settings(), Settings(prices=tmp_path / "prices.toml"))
        ]
    assert ["spot" in each for each in kinds] == [False, True]
    fleet.store.close()


def _moves(run: str, milliseconds: int, cause: str = "cross_rack") -> Proposal:
    return Proposal(
        "co_locate", "t", "f", "t", "w", (), "nobody", subject=run, cause=cause, run_ids=(run,),
        saves=ASSUMED["repair"], milliseconds=milliseconds, micros=milliseconds,
    )  # fmt: skip


def _found(id_: str, runs: tuple[str, ...], milliseconds: int, *, suspicion: bool = False) -> Finding:
    name = "sweep" if len(runs) == 1 else f"sweep ({len(runs)})"
    return Finding(
        id_, "r", name, runs, "ml", "communicating", "cross_rack", "w", milliseconds, milliseconds, "high", "run",
        0, 1, True, None, "s", (), "", suspicion,
    )  # fmt: skip


def test_a_loss_that_no_finding_has_is_not_promised_back() -> None:
    """A suspicion claims nothing, and so nothing can be saved of it; what empties a node claims no loss."""
    planned = [_moves("a", 10), _moves("b", 10), _moves("node n1", 0, "fragmented")]
    found = [_found("f-a", ("a",), 10, suspicion=True)]
    assert [moved.subject for moved in against(planned, found)] == ["node n1"]


@given(st.lists(st.integers(0, 100), min_size=2, max_size=4), st.integers(0, 300))
def test_moves_of_a_findings_runs_promise_no_more_than_it_lost(lost: list[int], milliseconds: int) -> None:
    """One of them moves in a plan, under the name that all of them bear."""
    runs = tuple(f"run-{number}" for number in range(len(lost)))
    planned = [_moves(run, amount) for run, amount in zip(runs, lost, strict=True)]
    (moved,) = against(planned, [_found("f-a", runs, milliseconds)])
    assert (moved.subject, moved.key, moved.actor, moved.team) == ("sweep", "sweep", "run", "ml")
    assert moved.milliseconds == min(max(lost), milliseconds)
    assert moved.micros == moved.milliseconds
