"""Solve with CP-SAT, in a process of its own: python -m analyzer.capacity.planner.cp_sat. No other imports ortools.

A solver that has to be stopped is stopped for certain only from outside. Of ortools only the compiled half is loaded:
it needs neither pandas nor numpy nor protobuf, and takes 0.1 s.

One question comes as JSON on standard input: `model` (CpModelProto as text, without an objective), `hint` (the values
of a known solution), `aims`, `seconds`, `workers`. An aim has `limits` and `objectives`, each a linear expression of
[variables, coefficients] (a limit also has its highest value): the objectives are minimised in order, each held at
what it came to while the next is looked at. A line of JSON goes out after each aim; the last one has all of them.
"""

import json
import sys
from importlib import import_module
from time import monotonic
from typing import Any

_SEED = 1  # with one worker, the same question has the same answer, as long as time does not run out
_LINEAR = 2  # every constraint with its linear relaxation: 50 tasks are proven in half of the time
_LOWEST = -(2**62)


def _solve(question: dict[str, Any]) -> None:
    """Solve each aim in turn, and say all that is known after each."""
    until = monotonic() + question["seconds"]
    hint: list[int] = question["hint"]
    answers: list[dict[str, object]] = []
    for aim in question["aims"]:
        answer = _solve_aim(question, aim, hint, until)
        answers.append(answer)
        if answer["values"] is not None:
            hint = answer["values"]  # type: ignore[assignment]
        sys.stdout.write(json.dumps({"aims": answers}) + "\n")
        sys.stdout.flush()


def _solve_aim(question: dict[str, Any], aim: dict[str, Any], hint: list[int], until: float) -> dict[str, object]:
    """Return the values of the last objective's solution, the first one's bound, and whether all is proven."""
    limits = list(aim["limits"])
    values, bound, is_proven, is_infeasible = None, None, True, False
    for objective in aim["objectives"]:
        left = until - monotonic()
        if left <= 0:
            is_proven = False
            break
        found = _minimise(question, limits, objective, hint, left)
        is_infeasible = values is None and found["is_infeasible"]
        is_proven = is_proven and found["is_optimal"]
        bound = found["bound"] if bound is None else bound
        if found["values"] is None:
            is_proven = False
            break
        values = hint = found["values"]
        limits.append([*objective, sum(c * values[v] for v, c in zip(*objective, strict=True))])
    return {"values": values, "bound": bound, "is_proven": is_proven, "is_infeasible": is_infeasible}


def _minimise(
    question: dict[str, Any], limits: list[Any], objective: list[list[int]], hint: list[int], seconds: float
) -> dict[str, Any]:
    helper: Any = import_module("ortools.sat.python.cp_model_helper")  # an optional extra, and without types

    text = [question["model"]]
    text += [
        f"constraints {{ linear {{ {_linear(*limit[:2])} domain: [{_LOWEST}, {limit[2]}] }} }}" for limit in limits
    ]
    text.append(f"objective {{ {_linear(*objective)} }}")
    text.append(f"solution_hint {{ vars: {list(range(len(hint)))} values: {hint} }}")
    model, settings, solver = helper.CpModelProto(), helper.SatParameters(), helper.SolveWrapper()
    if not model.parse_text_format("\n".join(text)):
        raise ValueError("BUG: CP-SAT cannot read the model")
    settings.parse_text_format(
        f"num_workers: {question['workers']} linearization_level: {_LINEAR} "
        f"max_time_in_seconds: {seconds} random_seed: {_SEED}"
    )
    solver.set_parameters(settings)
    response = solver.solve(model)
    status = response.status
    is_solved = status in (helper.OPTIMAL, helper.FEASIBLE)
    return {
        "values": list(response.solution) if is_solved else None,
        "bound": round(response.best_objective_bound) if is_solved or status == helper.UNKNOWN else None,
        "is_optimal": status == helper.OPTIMAL,
        "is_infeasible": status == helper.INFEASIBLE,
    }


def _linear(variables: list[int], coefficients: list[int]) -> str:
    return f"vars: {variables} coeffs: {coefficients}"


if __name__ == "__main__":
    import_module("ortools.sat.python.cp_model_helper")  # while the question is still being made
    _solve(json.load(sys.stdin))
