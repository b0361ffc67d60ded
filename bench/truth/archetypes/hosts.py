"""Runs over several hosts: of which one feeds its ranks too slowly, or which lie in one rack or in several.

Published: the slow rank of a synchronous run is the one that its peers wait for in the collective (HTA); contention on
the way between racks made a GPT's iteration 1.11 times as long (Crux), that of other models 1.6 times in the mean and
2.5 in the tail (CASSINI); the layer above Llama 3's pods has a seventh of the links below it. A host has a port of
400 Gbit/s a GPU.
"""

from bench.truth.archetypes import loaders
from bench.truth.archetypes.loaders import Host
from bench.truth.archetypes.phases import compute, exchange, optimizer, start
from bench.truth.archetypes.training import FED, STALLS, a_step, train, wait
from bench.truth.draw import Draw
from bench.truth.kinds import Kind
from bench.truth.tape import Part

PORT_BYTES = 5e10
REACHED = (0.4, 0.9)  # of the ports, by exchanges within a rack
EXPOSED = (0.08, 0.35)  # of the same run's computing, within a rack
SLOWER = (1.3, 7.0)


def _spread(draw: Draw) -> int:
    draw.nodes = int(draw.rng.choice([2, 4]))
    return draw.nodes


def _beside_a_slow_disk(draw: Draw, slow: Host) -> Host:
    """Return another host of the same run, whose drive has the same to deliver and is quicker."""
    rests = {"io_pressure": draw.uniform(0.0, 0.05), "waiting_workers": draw.uniform(0.0, 0.08), "iowait_cores": 0.1}
    quicker = {"disk_busy": slow["disk_busy"] * draw.uniform(0.1, 0.5), "disk_waited": slow["disk_waited"] * 0.15}
    return slow | rests | quicker


def starving_apart(draw: Draw) -> None:
    """One host's disk is slow: its ranks wait for input in each step, and all others for them in the collective."""
    slow = int(draw.rng.integers(_spread(draw)))
    draw.group_of_node = [int(node == slow) for node in range(draw.nodes)]
    draw.group_of_rank = [draw.group_of_node[rank // draw.ranks_per_node] for rank in range(draw.cell.ranks)]
    disk = loaders.slow_disk(draw)
    plain = compute(draw)
    work, behind = plain.but(**_beside_a_slow_disk(draw, disk)), plain.but(**disk)
    carried = draw.uniform(*REACHED) * draw.ranks_per_node * PORT_BYTES
    meeting = tuple(exchange(draw, kind).but(fabric=carried) for kind in (work, behind))
    peers = meeting[0].but(nvlink=1e8, fabric=0.0).being("communicating", "straggler")
    start(draw, work)
    draw.tape.steps(_apart(draw, (work, behind), peers, meeting), draw.step, draw.tape.left)


def _apart(draw: Draw, work: tuple[Kind, Kind], peers: Kind, meeting: tuple[Kind, ...]) -> list[Part]:
    """Return a step that some ranks begin later: by the time that their input takes."""
    late, met = draw.uniform(*STALLS), draw.uniform(0.02, 0.10)
    computed = 0.95 * (1 - late) * (1 - met)
    missing = wait(draw, work[1], "storage", 0.0).seen
    assert isinstance(missing, Kind)
    early = min(late, computed)  # until then those that are fed compute
    sigma = draw.uniform(0.1, 0.4)
    parts = [Part((work[0], missing), early, sigma)]
    parts.append(Part((peers, missing), late - early, sigma))
    parts.append(Part(work, computed - early, 0.04))
    parts.append(Part((peers, work[1]), early, sigma))
    parts.append(Part((optimizer(draw, work[0]), optimizer(draw, work[1])), 0.05 * computed, 0.03))
    return [part for part in (*parts, Part(meeting, met, 0.1)) if part.share > 0]


def within_rack(draw: Draw) -> None:
    """Hosts of one rack: what their exchanges take is what this fabric gives."""
    _spread(draw)
    _exchanging(draw, slower=1.0)


def across_racks(draw: Draw) -> None:
    """The same run over hosts of several racks: the same bytes take longer, and that is what it loses.

    A day later: on its first morning a fleet has seen no exchange within a rack yet, and has nothing to compare with.
    """
    draw.day = 1
    draw.racks = int(draw.rng.choice([2, _spread(draw)]))
    _exchanging(draw, slower=draw.log_uniform(*SLOWER))


def _exchanging(draw: Draw, slower: float) -> None:
    work = compute(draw).but(**loaders.fed(draw))
    parts = a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED)), exchanged=EXPOSED)
    *computing, last = parts
    assert isinstance(last.seen, Kind)
    carried = draw.uniform(*REACHED) * draw.ranks_per_node * PORT_BYTES / slower
    meeting = last.seen.but(fabric=carried, nvlink=last.seen.values["nvlink"] / slower)
    if slower > 1:
        meeting = meeting.divided((("communicating", "cross_rack"), 1 - 1 / slower))
    train(draw, work, [*computing, Part(meeting, last.share * slower, last.sigma)])
