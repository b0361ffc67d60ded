"""A sized model as JSON: schema gpuledger/size, version 1 (docs/json.md). Bytes, millionths of money, seconds."""

from typing import Any

from analyzer.sizing.fitting import Fit, Misfit
from analyzer.sizing.memory import Memory
from analyzer.sizing.sized import Sized
from analyzer.text.as_json import as_json, plain_data


def sized_json(one: Sized) -> str:
    """Return the whole answer; None stays null: not known."""
    shape = one.model.shape
    return as_json(
        "size",
        {
            "model": {
                "name": one.model.name,
                "parameters": one.model.parameters,
                "active_parameters": shape.active_parameters if shape else None,
                "shape": plain_data(shape),
                "source": one.model.source,
            },
            "for": one.work.purpose,
            "precision": one.work.precision.name,
            "kv_precision": one.work.cache.name if one.work.cache else None,
            "optimizer": one.work.optimizer if one.work.is_training else None,
            "rank": one.work.rank if one.work.purpose in ("lora", "qlora") else None,
            "recompute": one.work.recompute if one.work.is_training else None,
            "batch": one.work.batch,
            "context": one.work.context,
            "sequences": one.work.sequences if not one.work.is_training else None,
            "memory": _memory(one.memory),
            "currency": one.currency,
            "fits": [_fit(fit) for fit in one.fits],
            "does_not_fit": [_misfit(misfit) for misfit in one.misfits],
            "similar": plain_data(one.similar),
        },
    )


def _memory(needed: Memory) -> dict[str, Any]:
    return {
        "sharding": plain_data(needed.sharding),
        "parts": [{"name": part.name, "bytes": part.bytes, "told": part.told} for part in needed.parts],
        "total_bytes": needed.total_bytes,
        "is_whole": needed.is_whole,
    }


def _fit(fit: Fit) -> dict[str, Any]:
    return {
        "sku": fit.kind.sku,
        "gpus": fit.gpus,
        "nodes": fit.nodes,
        "gpus_a_node": fit.gpus_a_node,
        "owned_gpus": fit.kind.owned_gpus,
        "memory_bytes": fit.kind.memory_bytes,
        "holds": _memory(fit.memory),
        "room_permille": fit.room_permille,
        "is_tight": fit.is_tight,
        "price": plain_data(fit.rate),
        "offer": plain_data(fit.offer),
        "micros_per_hour": fit.micros_per_hour,
        "node_micros_per_hour": fit.node_micros_per_hour,
    }


def _misfit(misfit: Misfit) -> dict[str, Any]:
    return {"sku": misfit.kind.sku, "memory_bytes": misfit.kind.memory_bytes, "why": misfit.why}
