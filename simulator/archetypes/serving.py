"""Services: a ranker with room between requests, and a language model that decodes.

Published numbers: serving pods read 0 in 66.8 % of samples (Alibaba GenTD26), which is headroom, not waste, as long
as a latency promise is kept; decoding keeps DRAM over half of its bandwidth and tensor cores nearly idle, which is no
starvation (DRAM's practical peak is about 0.8; KempnerPulse calls it memory-bound from 0.5 up). Batches of one leave
most of the chip idle while a kernel is resident.
"""

import math

import numpy as np

from agent.wire.units import DAY_MS, HOUR_MS
from simulator import labels
from simulator.activity import Activity, blend
from simulator.archetypes.phases import CONTEXT_ONLY, DENSE, gib, spread, start_up
from simulator.plan import Plan, Run, alike

RANKER_SLO_SECONDS = 0.25
LLM_SLO_SECONDS = 2.0
_UNBATCHED_HOURS = (1.0, 4.0)  # at night, requests come one by one and are not waited for


def _load(milliseconds: int) -> float:
    """Return how busy people keep a service at this time: the share of its best hour, from 0.25 to 1."""
    hours = milliseconds % DAY_MS / HOUR_MS
    weekend = 0.75 if milliseconds // DAY_MS % 7 >= 5 else 1.0
    return weekend * (0.62 + 0.38 * math.sin((hours - 9.5) / 24 * 2 * math.pi))


def ranker(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a service busy about half of the time, with headroom between requests, and unbatched at night."""
    tape = plan.tape(horizon)
    batch = DENSE.but(sm=0.74, tensor=0.28, dram=0.42, power=0.72, memory=gib(22), cores=2.4, host_memory=gib(12))
    batch = batch.but(running=6.0, ethernet_in=3e6, ethernet_out=1e6, pcie_in=5e7)
    single = batch.but(sm=0.15, tensor=0.03, dram=0.09, power=0.31, running=1.0, pcie_in=1e7)
    ready = CONTEXT_ONLY.but(memory=gib(22), cores=0.3, host_memory=gib(12)).being(labels.HEADROOM)
    start_up(tape, rng, memory=gib(22), weights=3e9, again=False)
    while tape.running:
        share = min(0.93, max(0.08, _load(tape.now) * 0.80 * spread(rng, 1.0, 0.12)))
        tape.play(_minutes(batch, single, ready, share, tape.now), spread(rng, 150))
    return alike(plan, tape)


def _minutes(batch: Activity, single: Activity, ready: Activity, share: float, now: int) -> Activity:
    """Return some minutes of the ranker: busy for a share of them, by batches or one by one."""
    first, last = _UNBATCHED_HOURS
    if first <= now % DAY_MS / HOUR_MS < last:
        mixed = blend((single.being(labels.UNBATCHED), 0.62), (ready, 0.38))
        return mixed.but(requests=9.0, tokens_in=1_100.0, first_token_seconds=0.03)
    rate = 190.0 * share
    told = {"requests": rate, "tokens_in": rate * 120, "first_token_seconds": 0.035 + 0.03 * share}
    return blend((batch, share), (ready, 1 - share)).but(**told)


def llm(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a service that decodes: memory bandwidth busy, tensor cores quiet, tokens flowing."""
    tape = plan.tape(horizon)
    decode = DENSE.but(sm=0.52, occupancy=0.2, tensor=0.07, dram=0.66, power=0.58, memory=gib(72), nvlink=6e9)
    decode = decode.but(
        cores=1.6,
        host_memory=gib(20),
        running=14.0,
    )
    decode = decode.but(ethernet_in=2e5, ethernet_out=6e5).being(labels.DECODE)
    ready = CONTEXT_ONLY.but(memory=gib(72), cores=0.4, host_memory=gib(20)).being(labels.HEADROOM)
    start_up(tape, rng, memory=gib(72), weights=1.8e10, again=False)
    while tape.running:
        share = min(0.99, max(0.3, _load(tape.now) * 1.1 * spread(rng, 1.0, 0.08)))
        minutes = blend((decode, share), (ready, 1 - share))
        rate = 2.1 * share
        told = {"requests": rate, "tokens_in": rate * 900, "tokens_out": rate * 310, "kv_cache": 0.2 + 0.5 * share}
        queued = max(0.0, share - 0.9) * 20
        tape.play(minutes.but(**told, waiting=queued, first_token_seconds=0.25 + 0.3 * share), spread(rng, 200))
    return alike(plan, tape)
