"""Solve integer programmes with HiGHS, in a process of its own: python -m analyzer.placement.gang.highs.

highspy and ortools carry libraries of one name and cannot be imported in one process, in either order; and a solver
that has to be stopped is stopped for certain only from outside. One programme comes as JSON on standard input, one
line of JSON goes out. The only module that imports highspy.
"""

import json
import sys
from importlib import import_module
from typing import Any


def solve(programme: dict[str, Any]) -> dict[str, object]:
    """Return the bound, whether it is the optimum, and the columns of the best solution (None: there is none).

    The programme has `cost`, `upper`, `start` (or None), `rows` of [columns, coefficients, lower, upper], `seconds`.
    """
    highspy: Any = import_module("highspy")  # an optional extra, 0.5 s, and without types

    model = highspy.HighsLp()
    columns = len(programme["cost"])
    model.num_col_, model.num_row_ = columns, len(programme["rows"])
    model.col_cost_, model.col_lower_, model.col_upper_ = programme["cost"], [0.0] * columns, programme["upper"]
    model.row_lower_ = [row[2] for row in programme["rows"]]
    model.row_upper_ = [row[3] for row in programme["rows"]]
    model.integrality_ = [highspy.HighsVarType.kInteger] * columns
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    starts, index, value = [0], list[int](), list[float]()
    for row in programme["rows"]:
        index += row[0]
        value += row[1]
        starts.append(len(index))
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = starts, index, value
    highs = highspy.Highs()
    # A relative gap of 1e-4 is HiGHS's default, and stopped 1 s off 9 h: the optimum is asked for, or a bound.
    options = {"output_flag": False, "mip_rel_gap": 0.0, "threads": 1, "time_limit": float(programme["seconds"])}
    for name, setting in options.items():
        highs.setOptionValue(name, setting)
    highs.passModel(model)
    if programme["start"] is not None:
        solution = highspy.HighsSolution()
        solution.col_value = programme["start"]
        highs.setSolution(solution)
    highs.run()
    info = highs.getInfo()
    is_solution = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    bound = info.mip_dual_bound
    return {
        "bound": bound if abs(bound) < 1e300 else None,
        "is_optimal": highs.getModelStatus() == highspy.HighsModelStatus.kOptimal,
        "objective": info.objective_function_value if is_solution else None,
        "values": list(highs.getSolution().col_value) if is_solution else None,
    }


class Rows:
    """A linear programme that grows by rows and columns and is solved again and again; columns are 0 or more."""

    def __init__(self) -> None:
        highspy: Any = import_module("highspy")
        self.infinity: float = highspy.kHighsInf
        self.columns = 0
        self.count = 0  # of rows
        self._highs = highspy.Highs()
        for name, setting in {"output_flag": False, "threads": 1}.items():
            self._highs.setOptionValue(name, setting)

    def row(self, lower: float, upper: float) -> int:
        """Add an empty row; return its number."""
        self._highs.addRow(lower, upper, 0, [], [])
        self.count += 1
        return self.count - 1

    def bounds(self, row: int, lower: float, upper: float) -> None:
        """Change a row's bounds."""
        self._highs.changeRowBounds(row, lower, upper)

    def column(self, cost: float, upper: float, entries: dict[int, int]) -> None:
        """Add a column with its coefficients by row."""
        values = [float(value) for value in entries.values()]
        self._highs.addCol(cost, 0.0, upper, len(entries), list(entries), values)
        self.columns += 1

    def solved(self) -> tuple[float, list[float]]:
        """Solve from where the last solution was; return the value and the rows' duals."""
        self._highs.run()
        return self._highs.getInfo().objective_function_value, list(self._highs.getSolution().row_dual)

    def values(self) -> list[float]:
        """Return the columns of the last solution."""
        return list(self._highs.getSolution().col_value)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(solve(json.load(sys.stdin))) + "\n")
