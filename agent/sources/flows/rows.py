"""The rows of one reading: what each run moved to and from each peer, no more of them than are worth keeping."""

from collections.abc import Mapping

from agent.source import Row, Value
from agent.sources.flows.moved import MovedBytes

ROWS_MAX = 64  # (run, peer) pairs that are told one by one at a reading
OTHER = "other"  # all peers of a run beyond those

_Flows = Mapping[tuple[str, str], MovedBytes]  # by run and peer


def flow_rows(counted: _Flows, estimated: _Flows) -> list[Row]:
    """Return the rows of `flow_samples`. A pair that moved nothing has none."""
    told = [_row(pair, moved, "tcp") | {"retransmits": moved.retransmits} for pair, moved in largest(counted).items()]
    return [*told, *(_row(pair, moved, "rdma_estimate") for pair, moved in largest(estimated).items())]


def largest(flows: _Flows) -> dict[tuple[str, str], MovedBytes]:
    """Return the pairs that moved most, and in one pair a run what all its others moved."""
    moving = {pair: moved for pair, moved in flows.items() if moved != MovedBytes()}
    ranked = sorted(moving, key=lambda pair: (-moving[pair].bytes, pair))
    kept = {pair: moving[pair] for pair in ranked[:ROWS_MAX]}
    for pair in ranked[ROWS_MAX:]:
        others = (pair[0], OTHER)
        kept[others] = kept.get(others, MovedBytes()) + moving[pair]
    return kept


def _row(pair: tuple[str, str], moved: MovedBytes, transport: str) -> dict[str, Value]:
    return {
        "run_id": pair[0],
        "peer": pair[1],
        "transport": transport,
        "receive_bytes": moved.receive_bytes,
        "transmit_bytes": moved.transmit_bytes,
    }
