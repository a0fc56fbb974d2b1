"""A certificate of this machine's own, for servers that tests start."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TlsFiles:
    """A certificate, which is also its own authority, and its key."""

    certificate: Path
    key: Path


LOOPBACK = "IP:127.0.0.1,IP:::1,DNS:localhost"


def self_signed(folder, names=LOOPBACK):
    """A fresh certificate for these names, valid for two days."""
    folder.mkdir(parents=True, exist_ok=True)
    files = TlsFiles(folder / "cert.pem", folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", files.key, "-out", files.certificate),
            *("-subj", "/CN=localhost", "-addext", f"subjectAltName={names}"),
        ],
        check=True,
        capture_output=True,
    )
    return files
