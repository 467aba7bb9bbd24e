"""The servers of the locks that are neither on Redis nor on PostgreSQL."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from locking.tests.needs import Need, find, programs
from locking.tests.servers import Server, ServerFailed, free_port

# Where Debian, and the upstream archive unpacked under ZOOKEEPER_HOME, keep ZooKeeper's classes.
JARS = (
    Path("/usr/share/java/zookeeper.jar"),
    Path(os.environ.get("ZOOKEEPER_HOME", "/opt/zookeeper")) / "lib",
)


class Memcached(Server):
    """memcached."""

    name = "memcached"
    need = programs("memcached", "memcached", package="memcached", module="pymemcache")

    def command(self) -> list[str]:
        command = [find("memcached") or "memcached", "-l", "127.0.0.1", "-p", str(self.port)]
        return [*command, "-U", "0", "-m", "64", *(["-u", "nobody"] if os.geteuid() == 0 else [])]

    @property
    def endpoint(self) -> tuple[str, int]:
        """Host and port."""
        return ("127.0.0.1", self.port)


class ZooKeeper(Server):
    """ZooKeeper with a tick short enough that a session can end within a second."""

    name = "zookeeper"
    need = Need(
        "ZooKeeper",
        "apt-get install zookeeper default-jre-headless, pip install kazoo",
        lambda: bool(find("java") and find_spec("kazoo") and any(map(Path.exists, JARS))),
    )
    tick = 100  # ms; sessions may be as short as two ticks

    def prepare(self) -> None:
        settings = {
            "dataDir": self.home / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "tickTime": self.tick,
            "minSessionTimeout": 2 * self.tick,
            "maxSessionTimeout": 120_000,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "forceSync": "no",
        }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.home / "zoo.cfg").write_text(text)

    def command(self) -> list[str]:
        classes = [f"{jar}/*" if jar.is_dir() else str(jar) for jar in JARS if jar.exists()]
        java = [find("java") or "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        return [*java, "-cp", os.pathsep.join(classes), main, str(self.home / "zoo.cfg")]

    def ping(self) -> None:
        # "srvr" is the one four-letter word allowed by default; the port alone opens too early.
        with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            connection.sendall(b"srvr")
            answer = connection.recv(4096)
        if b"Mode: standalone" not in answer:
            raise ServerFailed(repr(answer))

    @property
    def endpoint(self) -> str:
        """The hosts, as kazoo takes them."""
        return f"127.0.0.1:{self.port}"


class Etcd(Server):
    """etcd v3 that lets in only clients with a certificate of its own authority."""

    name = "etcd"
    need = programs("etcd", "etcd", "openssl", package="etcd-server openssl", module="etcd3gw")

    def __init__(self) -> None:
        super().__init__()
        self.peer_port = free_port()

    def prepare(self) -> None:
        make_authority(self.home)
        make_certificate(self.home, "server")
        make_certificate(self.home, "client")

    def command(self) -> list[str]:
        here = f"https://127.0.0.1:{self.port}"
        peer = f"http://127.0.0.1:{self.peer_port}"
        settings = {
            "data-dir": self.home / "data",
            "listen-client-urls": here,
            "advertise-client-urls": here,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "cert-file": self.home / "server.pem",
            "key-file": self.home / "server.key",
            "trusted-ca-file": self.home / "ca.pem",
            # A lease may be as short as one election; the default makes two seconds the least.
            "heartbeat-interval": 50,
            "election-timeout": 500,
        }
        options = [f"--{key}={value}" for key, value in settings.items()]
        return [find("etcd") or "etcd", "--client-cert-auth", *options]

    def environment(self) -> Mapping[str, str]:
        return {"ETCD_UNSUPPORTED_ARCH": "arm64"} if os.uname().machine == "aarch64" else {}

    def ping(self) -> None:
        import requests

        health = requests.get(
            f"https://127.0.0.1:{self.port}/health",
            verify=str(self.home / "ca.pem"),
            cert=(str(self.home / "client.pem"), str(self.home / "client.key")),
            timeout=2,
        )
        if health.json()["health"] != "true":
            raise ServerFailed(health.text)

    @property
    def endpoint(self) -> dict[str, Any]:
        """The arguments of `locking.backends.etcd.etcd_client`."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "ca_cert": str(self.home / "ca.pem"),
            "cert_cert": str(self.home / "client.pem"),
            "cert_key": str(self.home / "client.key"),
        }


# -- certificates, from an authority of one day


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
