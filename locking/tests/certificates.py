"""Certificates for servers that speak TLS, from an authority of one day."""

from __future__ import annotations

import subprocess
from pathlib import Path


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, cwd=folder, capture_output=True)


NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def make_authority(folder: Path) -> None:
    """Write a certificate authority for one day: `ca.pem` and `ca.key`."""
    names = ("-subj", "/CN=lock tests", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    files = ("-keyout", "ca.key", "-out", "ca.pem")
    _openssl(folder, "req", "-x509", *NEW_KEY, "-days", "1", *files, *names)


def make_certificate(folder: Path, name: str) -> None:
    """Write `<name>.pem` and `<name>.key`, signed by the authority in the same folder.

    etcd's HTTP gateway presents the server's certificate to its own gRPC port, so that one has to
    be good for clients as well.
    """
    (folder / f"{name}.ext").write_text(
        "subjectAltName=IP:127.0.0.1,DNS:localhost\n"
        "extendedKeyUsage=serverAuth,clientAuth\n"
        "keyUsage=critical,digitalSignature\n"
        "authorityKeyIdentifier=keyid\n"
    )
    files = ("-keyout", f"{name}.key", "-out", f"{name}.csr")
    _openssl(folder, "req", *NEW_KEY, *files, "-subj", f"/CN={name}")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1")
    request = ("-in", f"{name}.csr", "-extfile", f"{name}.ext", "-out", f"{name}.pem")
    _openssl(folder, "x509", "-req", *signing, *request)
