"""A private certificate authority, made by openssl, and server certificates that it signs."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Signed:
    """Files of a server's certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """What a site has of its own; `certificate` is what agents are told to trust."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is missing: apt-get install openssl")
        self.certificate, self._key = directory / "site.pem", directory / "site.key"
        self._directory = directory
        self._made = 0
        self._openssl("req", "-x509", *self._new(self._key), "-subj", "/CN=site", "-out", str(self.certificate))

    def server(self, name: str = "IP:127.0.0.1") -> Signed:
        """Return a new certificate for a server of this name."""
        self._made += 1
        stem = self._directory / f"server{self._made}"
        key, request, signed, names = (stem.with_suffix(f".{kind}") for kind in ("key", "csr", "pem", "cnf"))
        names.write_text(f"subjectAltName={name}\n")
        self._openssl("req", *self._new(key), "-subj", f"/CN=server{self._made}", "-out", str(request))
        signing = ("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial", "-days", "2")
        self._openssl("x509", "-req", "-in", str(request), *signing, "-extfile", str(names), "-out", str(signed))
        return Signed(signed, key)

    def _new(self, key: Path) -> tuple[str, ...]:
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(key))

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
