"""Python is told once that there is no pandas, and DuckDB asks it for every parameter of every statement."""

import subprocess
import sys

SCRIPT = """
import sys
from collector.store.database import Store

with Store.open(None) as store, store.session() as session:
    assert session.row("SELECT ? + ?", [1, 2]) == (3,)
    before = len(sys.meta_path)
    with Store.open(None):
        assert len(sys.meta_path) == before
try:
    import pandas
except ModuleNotFoundError as error:
    print(error, error.name)
import plotly.graph_objects, pyarrow
print(pyarrow.array([1, 2]).to_pylist(), plotly.graph_objects.Figure().to_json()[:9])
"""


def test_who_wants_pandas_is_told_that_there_is_none() -> None:
    """In the words in which Python says it: pyarrow and plotly do without, as they do on any host that lacks it."""
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["No module named 'pandas' pandas", '[1, 2] {"data":[']
