"""What the unit forbids is tried here: a hardening that breaks the store would be taken out by whoever meets it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# As MemoryDenyWriteExecute= does it where the kernel can: prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN), from 6.3 on.
PROGRAM = """
import ctypes, mmap, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(65, 1, 0, 0, 0):
    sys.exit("optional: this kernel has no PR_SET_MDWE")
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    sys.exit("memory that is writable and executable was given")
except PermissionError:
    pass
from pathlib import Path
from collector.store.database import Store
from collector.store.lake import default_lake
path = Path(sys.argv[1])
with Store.open(path, lake=default_lake(path)) as store, store.session() as session:
    session.execute("INSERT INTO lake.main.markers SELECT 0, range, 0 FROM range(1000)")
    assert session.row("SELECT sum(upto) FROM markers") == (499500,)
print("sealed")
"""


def test_extensions_load_where_no_memory_is_writable_and_executable(tmp_path: Path) -> None:
    """DuckDB's extensions come by dlopen, and its queries are interpreted: neither needs MemoryDenyWriteExecute=no."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "store.duckdb")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert (ran.stdout, ran.returncode) == ("sealed\n", 0), ran.stderr
