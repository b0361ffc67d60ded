"""Write tests/golden/batch_v1.*: run by hand, and only until the first release, after which it must never change."""

import json
from pathlib import Path

from agent.wire.contract import Column
from agent.wire.envelope import encode
from agent.wire.tables import TABLES

GOLDEN = Path(__file__).parent.parent / "golden"
VALUES = {"string": "text", "int64": 42, "float64": 0.25, "bool": True}


def value(column: Column, row: int) -> object:
    """Return a value in the first row, and nothing in the second, where that is allowed."""
    return VALUES[column.type] if row == 0 or column.required else None


def main() -> None:
    """Write one batch with every table and column of schema version 1, and what it must decode to."""
    tables = {
        name: [{column.name: value(column, row) for column in table.columns_at(1)} for row in range(2)]
        for name, table in TABLES.items()
    }
    body = encode(
        agent="n14",
        stream="5f4ee1c8-1de9-4f6d-9d0c-5a8f2ad1f2d3",
        sequence=7,
        sent_at=1_795_219_200_000_000,
        tables=tables,
    )
    (GOLDEN / "batch_v1.bin").write_bytes(body)
    expected = {"agent": "n14", "sequence": 7, "tables": tables}
    (GOLDEN / "batch_v1.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
