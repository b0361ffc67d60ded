"""Slurm 22.05's JSON as releases since 23.11 write it: numbers as objects, states as lists, codes taken apart."""

from typing import Any

Record = dict[str, Any]


def number(value: int | float | None) -> Record:
    """Return a number as data_parser v0.0.40 writes it."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


def squeue(document: Record) -> Record:
    """Return the whole answer of squeue in the newer types."""
    return document | {"jobs": [_job(job) for job in document["jobs"]]}


def sacct(document: Record) -> Record:
    """Return the whole answer of sacct in the newer types."""
    return document | {"jobs": [_accounted(job) for job in document["jobs"]]}


def nodes(document: Record) -> Record:
    """Return the nodes of sinfo as `scontrol show node --json` writes them since 23.02."""
    return {"nodes": [_node(node) for node in document["nodes"]], "last_update": number(1)}


def _job(job: Record) -> Record:
    numbers = ("array_job_id", "array_task_id", "het_job_id", "het_job_offset", "priority", "time_limit")
    times = ("submit_time", "start_time", "end_time")
    code = {"status": ["SUCCESS"], "return_code": number(0), "signal": {"id": number(None), "name": ""}}
    allocation = {"select_type": ["CORE"], "nodes": {"count": 1, "list": job["nodes"], "allocation": []}}
    return (
        job
        | {name: number(job[name]) for name in (*numbers, *times)}
        | {"job_state": [job["job_state"]], "exit_code": code, "job_resources": allocation}
    )


def _accounted(job: Record) -> Record:
    array = job["array"] | {"task_id": number(job["array"]["task_id"])}
    het = job["het"] | {"job_offset": number(job["het"]["job_offset"])}
    return job | {
        "array": array,
        "het": het,
        "state": job["state"] | {"current": [job["state"]["current"]]},
        "time": job["time"] | {"limit": number(job["time"]["limit"]), "start": job["time"]["start"] or 0},
        "priority": number(job["priority"]),
        "reservation": {"id": 0, "name": ""},
        "exit_code": {"status": ["SUCCESS"], "return_code": number(0)},
    }


def _node(node: Record) -> Record:
    state = [node["state"].upper(), *node["state_flags"]]
    return node | {"state": state, "state_flags": None, "reason_changed_at": number(node["reason_changed_at"])}
