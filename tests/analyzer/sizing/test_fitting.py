"""Which GPUs hold a model: with a tenth free, the fewest, the least intrusive way, the cheapest first."""

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.errors import ConfigError
from analyzer.prices.price_book import PriceBook, PriceRow
from analyzer.sizing.fitting import (
    Fit,
    GpuKind,
    GpuRequest,
    HourlyRate,
    ListOffer,
    Owned,
    fitting_offers,
    gpu_counts,
    holds,
    kinds,
    list_offers,
    named_bytes,
    room_permille,
    site_rate,
)
from analyzer.sizing.memory import memory
from analyzer.sizing.model import Model, model_named
from analyzer.sizing.work import PURPOSES, Sharding, work_of

GIB = 2**30
H100 = GpuKind("H100-80GB", 80 * GIB, 8, HourlyRate(2_600_000, "site", "reserved"), 128)
A100 = GpuKind("A100-80GB", 80 * GIB, 8, HourlyRate(1_100_000, "site", "owned"), 64)
L4 = GpuKind("L4-24GB", 24 * GIB, 8, HourlyRate(800_000, "list", "on_demand"), 0)


def row(sku: str | None, micros: int, option: str | None = None, **more: object) -> PriceRow:
    """Return a price for all time."""
    return replace(PriceRow(sku, option, None, micros, 0, None, "test", date(2026, 1, 1)), **more)  # type: ignore[arg-type]


def test_what_fits_keeps_a_tenth_and_a_fifth_is_good() -> None:
    """90 of 100 bytes is the most; over 80 it is tight."""
    kind = GpuKind("X-1GB", 100, 1, None, None)
    assert [holds(used, kind) for used in (90, 91)] == [True, False]
    (fit,), _ = fitting_offers(Model("m", 35 * GIB, None, ""), work_of("inference"), [H100])
    assert (fit.gpus, fit.room_permille, fit.is_tight) == (1, 112, True)
    assert room_permille(200, kind) == -1000


def test_the_cheapest_comes_first_and_what_has_no_price_last() -> None:
    """By what all of its GPUs cost together."""
    unpriced = replace(H100, sku="H200-141GB", rate=None)
    fits, _ = fitting_offers(model_named("llama-3-8b"), work_of("inference"), [unpriced, H100, L4, A100])
    assert [fit.kind.sku for fit in fits] == ["L4-24GB", "A100-80GB", "H100-80GB", "H200-141GB"]
    assert (fits[0].micros_per_hour, fits[-1].micros_per_hour) == (800_000, None)
    assert fits[0].node_micros_per_hour == 8 * 800_000


@pytest.mark.parametrize(
    ("name", "purpose", "gpus", "told"),
    [
        ("llama-3-8b", "inference", 1, "none"),
        ("llama-3-70b", "inference", 2, "tensor=2"),
        ("llama-3.1-405b", "inference", 16, "tensor=8,pipeline=2"),
        ("llama-3-8b", "full", 2, "tensor=2"),
        ("llama-3-70b", "lora", 4, "tensor=4"),
    ],
)
def test_the_fewest_gpus_and_the_least_intrusive_way(name: str, purpose: str, gpus: int, told: str) -> None:
    """Within a node powers of two are tried, beyond it whole nodes; matrices are split within a node alone."""
    (fit,), _ = fitting_offers(model_named(name), work_of(purpose, context=2048), [H100])  # type: ignore[arg-type]
    assert (fit.gpus, fit.memory.sharding.told) == (gpus, told)


@given(st.sampled_from(PURPOSES), st.sampled_from(["llama-2-7b", "qwen2.5-7b", "mixtral-8x7b", "llama-3-70b"]))
def test_one_count_less_would_not_hold_it(purpose: str, name: str) -> None:
    """Nor would any smaller one that is tried, in any of the usual ways."""
    model, work = model_named(name), work_of(purpose)  # type: ignore[arg-type]
    for fit in fitting_offers(model, work, [H100, L4])[0]:
        assert holds(fit.memory.total_bytes, fit.kind)
        for fewer in (count for count in gpu_counts(8) if count < fit.gpus):
            assert not fitting_offers(model, work, [fit.kind], GpuRequest(gpus=fewer))[0]


def test_what_does_not_fit_says_why() -> None:
    """Too small even over many nodes, of unknown memory, or without the precision."""
    small, unknown = GpuKind("T4-16GB", 2 * GIB, 1, None, None), GpuKind("Strange", None, 1, None, None)
    old = GpuKind("V100-32GB", 32 * GIB, 8, None, None)
    strange = replace(H100, sku="Z-80GB")
    _, misfits = fitting_offers(
        model_named("llama-3-70b"), work_of("full", "bf16"), [replace(small, sku="Z-2GB"), unknown, old, strange]
    )
    whys = {misfit.kind.sku: misfit.why for misfit in misfits}
    assert "each of 32 (zero3) would hold" in whys["Z-2GB"]
    assert "not known" in whys["Strange"]
    assert "no BF16 there" in whys["V100-32GB"]
    assert whys["Z-80GB"].startswith("not known whether it computes in BF16")
    _, (no_fp8,) = fitting_offers(model_named("llama-3-8b"), work_of("lora", "fp8"), [A100])
    assert "no FP8 there" in no_fp8.why


def test_what_is_asked_for_is_what_is_judged() -> None:
    """So many GPUs and no other number; one way and no other."""
    model, work = model_named("llama-3-70b"), work_of("inference")
    (fit,), _ = fitting_offers(model, work, [H100], GpuRequest(gpus=8))
    assert (fit.gpus, fit.memory.sharding) == (8, Sharding(tensor=8))
    (fit,), _ = fitting_offers(model, work, [H100], GpuRequest(sharding="pipeline"))
    assert fit.memory.sharding == Sharding(pipeline=2)
    _, (misfit,) = fitting_offers(model, work, [H100], GpuRequest(gpus=1))
    assert "it would hold" in misfit.why
    with pytest.raises(ConfigError, match="does not divide 8 GPUs"):
        fitting_offers(model, work, [H100], GpuRequest(8, "tensor=3"))
    with pytest.raises(ConfigError, match="28 heads"):
        fitting_offers(model_named("qwen2.5-7b"), work, [H100], GpuRequest(8, "tensor=8"))
    _, (never,) = fitting_offers(
        model_named("qwen2.5-7b"), work, [replace(H100, sku="Y-1GB")], GpuRequest(sharding="tensor=3")
    )
    assert "divides neither" in never.why
    _, (far,) = fitting_offers(model, work, [replace(H100, gpus_a_node=2)], GpuRequest(8, "tensor=4,pipeline=2"))
    assert "within their nodes" in far.why


def test_heads_that_a_node_does_not_divide_go_over_half_of_it() -> None:
    """28 heads over eight GPUs: matrices over four, layers over two; over more than all layers there is no way."""
    model, work = model_named("qwen2.5-7b"), work_of("inference")
    (fit,), _ = fitting_offers(model, work, [H100], GpuRequest(gpus=8))
    assert fit.memory.sharding == Sharding(tensor=4, pipeline=2)
    _, (misfit,) = fitting_offers(model, work, [H100], GpuRequest(gpus=256))
    assert misfit.why.startswith("any way over 256 divides neither")


def test_a_sku_says_its_memory_and_a_driver_knows_better() -> None:
    """An L4 of 24 GB has 22.5 GiB for whoever asks it."""
    assert (named_bytes("H100-80GB"), named_bytes("GB200-186GB"), named_bytes("H100")) == (80 * GIB, 186 * GIB, None)
    fleet = {"L4-24GB": Owned(16, 4, int(22.5 * GIB))}
    found = {kind.sku: kind for kind in kinds(PriceBook(), 0, fleet)}
    assert (found["L4-24GB"].memory_bytes, found["L4-24GB"].gpus_a_node) == (int(22.5 * GIB), 4)
    assert (found["L4-24GB"].owned_gpus, found["H100-80GB"].owned_gpus) == (16, 0)
    assert all(kind.owned_gpus is None for kind in kinds(PriceBook(), 0))


def test_the_site_s_price_goes_before_list_prices() -> None:
    """Of several rows the lowest that holds now; a row for any GPU is for those of the fleet; euros are no dollars."""
    later = row("H100-80GB", 1, starts_at=10**18)
    book = PriceBook.of([row("H100-80GB", 3_000_000, "on_demand"), row("H100-80GB", 2_000_000, "spot"), later])
    found = {kind.sku: kind.rate for kind in kinds(book, 10)}
    assert found["H100-80GB"] == HourlyRate(2_000_000, "site", "spot")
    listed = found["A100-80GB"]
    assert listed is not None
    assert listed.source == "list"
    flat = PriceBook.flat(5_000_000)
    assert site_rate(flat, "A100-80GB", 0, is_owned=True) == HourlyRate(5_000_000, "site", None)
    assert site_rate(flat, "A100-80GB", 0, is_owned=False) is None
    euros = PriceBook.of([row("H100-80GB", 1_000_000)], "EUR")
    assert {kind.sku for kind in kinds(euros, 0) if kind.rate} == {"H100-80GB"}


def test_a_fit_holds_what_its_memory_says() -> None:
    """The answer's parts are those of its sharding."""
    model, work = model_named("llama-3-70b"), work_of("qlora")
    for fit in fitting_offers(model, work, [H100, L4])[0]:
        assert isinstance(fit, Fit)
        assert fit.memory == memory(model, work, fit.memory.sharding)


def test_a_model_is_not_offered_on_hosts_that_nothing_joins() -> None:
    """Five hosts of one GPU hold 405 B parameters in sum, and serve no token; who has links between them says how."""
    model, work = model_named("llama-3.1-405b"), work_of("inference")
    for on_host in (1, 2, 3):
        few = GpuKind("B300-262GB", 262 * GIB, on_host, HourlyRate(1, "list", "on_demand"), None)
        fits, (misfit,) = fitting_offers(model, work, [few])
        assert (fits, "it is not known that such hosts have links" in misfit.why) == ([], True)
        assert fitting_offers(model_named("llama-3-8b"), work, [few])[0]
        assert fitting_offers(model, work, [few], GpuRequest(sharding="pipeline"))[0]
    for gpus in (None, 8, 40):
        for fit in fitting_offers(model, work, kinds(PriceBook(), 0), GpuRequest(gpus))[0]:
            assert fit.nodes == 1 or fit.gpus_a_node >= 4


def test_a_list_price_is_of_one_provider_and_of_a_host_that_could_run_it() -> None:
    """A median over clouds is asked by nobody, and an instance of one GPU does not run what needs eight on a host."""
    told = [
        ListOffer("a", "r", "one", 1, 1_000_000),
        ListOffer("b", "r", "eight", 8, 3_000_000),
        ListOffer("c", "r", "x", 8, 9_000_000),
    ]
    kind = GpuKind("H200-141GB", 141 * GIB, 8, HourlyRate(1_000_000, "list", "on_demand"), None, tuple(told))
    (small,), _ = fitting_offers(model_named("llama-3-8b"), work_of("inference"), [kind])
    alone = replace(kind, offers=(ListOffer("d", "r", "cheap eight", 8, 900_000), *told))
    assert alone.offer(1) == told[0]  # seven more would be paid
    assert alone.offer(8) == alone.offers[0]
    (large,), _ = fitting_offers(model_named("llama-3.1-405b"), work_of("inference"), [kind])
    assert (small.offer, small.nodes, small.node_micros_per_hour) == (told[0], 1, 1_000_000)
    assert (large.offer, large.gpus, large.micros_per_hour) == (told[1], 8, 24_000_000)
    (none,), _ = fitting_offers(
        model_named("llama-3.1-405b"), work_of("inference"), [replace(kind, offers=tuple(told[:1]))]
    )
    assert (none.rate, none.micros_per_hour) == (None, None)


def test_every_listed_price_is_one_that_a_provider_asks() -> None:
    """Whatever the model: each figure is a row of the list, and what is paid for is what the nodes hold."""
    for name in ("llama-3-8b", "llama-3-70b", "llama-3.1-405b"):
        for fit in fitting_offers(model_named(name), work_of("inference"), kinds(PriceBook(), 0))[0]:
            assert fit.offer in list_offers(fit.kind.sku)
            assert fit.rate == HourlyRate(fit.offer.micros_per_gpu_hour, "list", "on_demand")
            assert fit.gpus <= fit.nodes * fit.gpus_a_node
