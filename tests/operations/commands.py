"""What commands say that are called in this process; it takes in no more than they do themselves."""

import contextlib
import io
import tempfile
from pathlib import Path

import gpuledger

OUT = "(a file)"


def said(words: list[str]) -> tuple[int, str, str]:
    """Return what a command says and writes, and its exit code; `OUT` among its words is a file of its own."""
    out, err = io.StringIO(), io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        file = Path(folder) / "out"
        code = gpuledger.main([str(file) if word == OUT else word for word in words])
        return code, out.getvalue() + (file.read_text() if file.exists() else ""), err.getvalue()
