"""Read one Parquet file whole, apart from every store: a damaged one can end DuckDB's connection for good."""

from pathlib import Path

import duckdb

from collector.store.literal import literal
from collector.store.no_pandas import spare_the_search

_MEMORY = "256MB"


def unreadable(path: Path) -> str | None:
    """Return in a few words why a Parquet file cannot be read to its end, every value of it; None where it can."""
    spare_the_search()
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": _MEMORY,
        "threads": "1",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "preserve_insertion_order": "false",
    }
    connection = duckdb.connect(":memory:", config=config)
    try:
        connection.execute(f"SELECT bit_xor(hash(f)) FROM read_parquet({literal(path)}) f").fetchall()
    except duckdb.OutOfMemoryException:
        return None  # its bytes ask for more than we give: that tells nothing of the file
    except duckdb.Error as error:
        return str(error).splitlines()[0]
    finally:
        connection.close()
    return None
