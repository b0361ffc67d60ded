"""Write the dashboards anew: `python -m dashboards.grafana`."""

from collections.abc import Iterator
from pathlib import Path

from dashboards.grafana.dcgm_board import DCGM
from dashboards.grafana.host_boards import NODE_BOARD, RUN_BOARD
from dashboards.grafana.ledger_boards import FINOPS, FLEET
from dashboards.grafana.panels import board_text

_BOARDS = {"fleet": FLEET, "node": NODE_BOARD, "run": RUN_BOARD, "finops": FINOPS, "dcgm": DCGM}


def dashboard_files() -> Iterator[tuple[str, str]]:
    """Yield each dashboard's file name and its text."""
    for name, board in _BOARDS.items():
        yield f"{name}.json", board_text(board)


if __name__ == "__main__":
    for name, text in dashboard_files():
        (Path(__file__).parent / name).write_text(text, encoding="utf-8")
        print(name)
