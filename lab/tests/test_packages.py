"""The packages' metadata: versions, and extras that bring what their backends import."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from lab import environment

BACKENDS = {
    "redis": "redis*",
    "valkey": "redis*",
    "postgresql": "database*",
    "mysql": "mysql",
    "memcached": "memcached",
    "zookeeper": "zookeeper",
    "etcd": "etcd",
}
"""The modules of `locking.backends` by extra. `redlock` is one of `redis`."""

CLIENTS = {
    "redis": "redis",
    "valkey": "valkey",
    "psycopg": "psycopg",
    "PyMySQL": "pymysql",
    "pymemcache": "pymemcache",
    "kazoo": "kazoo",
    "etcd3gw": "etcd3gw",
}
"""Import names by distribution."""

FOLDER = environment.PROJECT / "locking" / "backends"


def project(package: str) -> dict[str, Any]:
    path = environment.PROJECT / "packaging" / package / "pyproject.toml"
    found: dict[str, Any] = tomllib.loads(path.read_text())["project"]
    return found


def modules(extra: str) -> list[str]:
    patterns = [BACKENDS[extra], *(["redlock"] if BACKENDS[extra] == "redis*" else [])]
    return sorted(path.stem for each in patterns for path in FOLDER.glob(f"{each}.py"))


def test_every_backend_has_an_extra():
    extras = project("locking")["optional-dependencies"]
    assert set(extras) == set(BACKENDS)
    public = {path.stem for path in FOLDER.glob("[!_]*.py")} - {"in_thread"}  # needs no client
    assert {name for extra in extras for name in modules(extra)} == public


@pytest.mark.parametrize("extra", BACKENDS)
def test_an_extra_brings_what_its_backends_import(extra):
    wanted = project("locking")["optional-dependencies"][extra]
    brought = {re.split(r"[\[<>=]", each)[0] for each in wanted}
    absent = [name for distribution, name in CLIENTS.items() if distribution not in brought]
    imports = [f"locking.backends.{name}" for name in modules(extra)]
    imports += [CLIENTS[distribution] for distribution in brought]
    script = f"import sys; sys.modules.update(dict.fromkeys({absent})); import {', '.join(imports)}"
    subprocess.run([sys.executable, "-c", script], cwd=environment.PROJECT, check=True, timeout=60)


def test_all_packages_have_one_version():
    version = project("locking")["version"]
    assert project("inventory")["version"] == project("loadtest")["version"] == version
    assert f"fenced-locking[redis]=={version}" in project("inventory")["dependencies"]
