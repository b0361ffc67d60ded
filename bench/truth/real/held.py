"""The rows that place a recorded GPU: who owns it, who holds it, on a host that is up."""

from bench.truth.real.sensors import Row


def held(node: str, gpus: tuple[str, ...], run_id: str, sku: str, since: int, until: int) -> dict[str, list[Row]]:
    """Return ownership, allocation and node state of a host's GPUs, which one run holds from since to until."""
    places: list[Row] = [{"node": node, "gpu_uuid": gpu} for gpu in gpus]
    owned: Row = {"owned_from": since, "owned_until": until, "sku": sku, "source": "recording"}
    span: Row = {"started_at": since, "ended_at": until}
    run: Row = {"run_id": run_id, "scheduler": "declared", "name": run_id.rpartition("/")[2]}
    return {
        "ownership": [place | owned for place in places],
        "allocations": [place | span | run for place in places],
        "node_states": [{"node": node, **span, "state": "up"}],
    }
