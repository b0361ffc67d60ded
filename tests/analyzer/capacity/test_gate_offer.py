"""The other offer is exact: against fractions, over thousands of requests."""

from dataclasses import replace
from fractions import Fraction
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from analyzer.capacity.gate.decided import Decided, Rate, offer_words
from analyzer.capacity.gate.offer import WantedWork, asked_of, held_at_once
from analyzer.capacity.gate.policy_check import check_request
from analyzer.capacity.gate.supply import FreeGpus, Names, Supply, work_of
from analyzer.capacity.profile.facts import Spread
from tests.analyzer.capacity.gate_asking import A100, HOUR_US, NOW, decided, policy, profile, read, request, run


@given(
    today=st.integers(1, 5_000),
    gpus=st.integers(1, 5_000),
    growth=st.integers(1, 20_000),
    hours=st.integers(1, 43_680),
    speeds=st.tuples(st.integers(500, 5_000), st.integers(1_001, 5_000)),
    step=st.sampled_from([1, 4, 8, 72]),
    free=st.none() | st.integers(0, 500),
    micros=st.none() | st.integers(0, 30_000_000),
)
def test_every_figure_is_the_exact_one(
    today: int,
    gpus: int,
    growth: int,
    hours: int,
    speeds: tuple[int, int],
    step: int,
    free: int | None,
    micros: int | None,
) -> None:
    """No float decides how many GPUs are bought, and no dollar is told where nobody has said a price."""
    careful, likely = speeds
    (advice,) = profile().advice
    one = profile(
        advice=(replace(advice, speedup_permille=Spread(careful, likely, likely)),),
        free=(),
        runs=tuple(replace(each, micros=None) for each in profile().runs),
    )
    supply = Supply(
        None if free is None else FreeGpus(free, "2026-11-12"),
        None if micros is None else Rate(micros, "contract", "USD"),
    )
    asked = request(gpus=gpus, weeks=None, hours=hours, today_gpus=today, growth=growth / 1000)
    found = check_request(asked, read(one), policy(step_gpus=step), supply, NOW)
    assert found.offer is not None
    for need, speed in ((found.offer.likely, likely), (found.offer.careful, max(1000, min(careful, likely)))):
        exact = Fraction(today * growth, speed)
        assert need.gpus == step * ceil(exact / step)
        assert need.needed_tenths == ceil(exact * 10)
        assert need.more == max(0, need.gpus - today)
        assert need.to_buy == (None if free is None else max(0, need.more - free))
        assert need.micros == (None if micros is None else need.more * hours * micros)
        if micros is not None and need.micros is not None:
            assert need.less_micros == gpus * hours * micros - need.micros
    assert found.micros == (None if micros is None else gpus * hours * micros)
    assert (found.rate is None) == any("a price of" in text for text in found.missing)
    _options_hold(found)


def _options_hold(found: Decided) -> None:
    """Less that was advised is less; the letters and the two ends are always there."""
    assert [option.letter for option in found.options] == list("ABCD"[: len(found.options)])
    assert found.options[0].more == found.request.gpus
    assert (found.options[-1].more, found.options[-1].what) == (0, "approve nothing")
    assert all(option.more < found.request.gpus for option in found.options[1:])
    assert sum(option.advised for option in found.options) <= 1


def test_the_cheaper_way_is_named() -> None:
    """First what to do, then what it does, then what is to be bought."""
    one = decided()
    words = "Fix the loader first: then 16 more GPUs do what 32 were asked for (likely), and the fleet has 16 free: "
    assert offer_words(one.request, one.offer) == words + "nothing to buy."
    assert one.at_length == (
        "The 16 GPUs the team uses for this lose 40.6% of their time to input starvation, which is worth 6.5 of them. "
        "With the loader fixed, 16 more do what 32 were asked for, and 17 stand free: no purchase."
    )
    less = decided(profile(free=(replace(profile().free[0], lowest_gpus=9),)))
    assert offer_words(less.request, less.offer).endswith("(likely); 7 of them to buy.")
    none = decided(gpus=8, growth=1.5)
    assert "then today's 16 GPUs do what 8 more were asked for (likely)." in none.headline


def test_the_choices_have_their_prices_and_what_follows() -> None:
    """As on the profile's first page."""
    assert [(one.what, one.more, one.to_buy, one.micros, one.in_time, one.if_wrong) for one in decided().options] == [
        ("approve as asked", 32, 15, 111_820_800_000, "yes", "41% starved"),
        ("fix first, then 16", 16, 0, 55_910_400_000, "likely", "8 more later"),
        ("fix first, then 24", 24, 7, 83_865_600_000, "yes", "8 too many"),
        ("approve nothing", 0, 0, 0, "no", "it comes late"),
    ]
    assert [option.letter for option in decided().options if option.advised] == ["B"]


def test_more_than_the_growth_takes_is_told_without_any_fix() -> None:
    """Twice today's work on 16 GPUs takes 16 more, and not 32."""
    options = decided(profile(advice=()), growth=2).options
    assert [(one.what, one.more) for one in options] == [
        ("approve as asked", 32),
        ("approve 16, as it grows", 16),
        ("approve nothing", 0),
    ]


def held(**changes: object) -> int | None:
    """Return what the runs of a profile with changes held at once."""
    one = profile(**changes)
    return held_at_once(request(), work_of(request(), one), one.until_us)


def test_today_is_what_the_runs_held_while_any_of_them_ran() -> None:
    """Three runs one after another hold 16 GPUs; side by side they hold 48; a gap between them holds nothing."""
    assert held() == 16
    beside = tuple(run(str(number), "2026-11-10T00:00", 10.0) for number in range(3))
    assert held(runs=beside) == 48
    half = (run("1", "2026-11-10T00:00", 10.0), run("2", "2026-11-10T05:00", 5.0))
    assert held(runs=half) == 24
    running = (replace(run("1", "2026-11-10T00:00", 1.0), ended_at=None),)
    assert held(runs=running) == 16
    assert held_at_once(request(sku=A100), work_of(request(), profile()), profile().until_us) is None


def test_without_a_word_on_growth_the_request_is_the_word() -> None:
    """32 beside 16 are three times as much."""
    asked = request(growth=None)
    assert asked_of(asked, work_of(asked, profile()), profile().until_us) == WantedWork(16, 3000)


def test_what_cannot_be_offered_is_said() -> None:
    """Other work, other GPUs: no figure is made up."""
    one = decided(sku=A100, growth=None)
    assert one.offer is None
    assert any(text.startswith("how many A100-80GB this work holds today") for text in one.missing)
    assert (one.rate and one.rate.micros_per_gpu_hour) == 1_100_000
    site = Names(frozenset({"team-nlp"}), frozenset(), frozenset({"B200"}), "UTC")
    unknown = check_request(request(sku="B200"), read(), policy(), Supply(names=site), NOW)
    assert (unknown.rate, unknown.micros) == (None, None)
    assert [text.partition(":")[0] for text in unknown.missing] == [
        "a price of B200",
        "how many B200 stand free",
        "how many B200 this work holds today",
    ]


def test_a_run_at_its_new_speed_proves_it() -> None:
    """70.5 hours at 1.53 times the speed are 46."""
    offer = decided().offer
    assert offer is not None
    assert offer.hours_to_prove == 46
    assert round(70.5 * HOUR_US / 1.53 / HOUR_US) == 46


def test_what_speeds_up_other_runs_of_the_profile_makes_this_work_no_faster() -> None:
    """A profile of a team holds several kinds of work; a loader fixed in one buys no GPU less for another."""
    found = profile()
    other = replace(run("90001", "2026-11-12T00:00", 4.0), name="pretrain-7b")
    mixed = replace(found, runs=(*found.runs, other))
    asked = decided(mixed, work="pretrain-7b")
    assert asked.offer is None
    assert next(gate.value for gate in asked.gates if gate.name == "recommendations") == "none open"
    kept = decided(mixed)
    assert kept.offer is not None
    assert kept.offer.advice_id == found.advice[0].id
