"""The database's small disk: full for the database alone, and for root only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from lab import environment

FILL = """
import os, sys
from pathlib import Path
from random import Random
import psycopg
from loadtest.faults import FAULTS, Target
from development import postgres
from development.embedded import private_servers
from lab.stack.proxies import small_disk

with private_servers(disk=small_disk) as servers:
    if servers.disk is None:
        print("no disk")
        sys.exit()
    url = servers.urls.database
    data = str(postgres.data_folder(servers.folder, servers.disk))
    target = Target("", 0, url, data, "", "", disk=str(servers.disk))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE big (value text)")
        insert = "INSERT INTO big SELECT repeat('x', 999) FROM generate_series(1, 999)"
        fault = FAULTS["disk-full"](target, Random(1))
        fault.inject()
        print(fault.did["a write"])
        try:
            connection.execute(insert)
        except psycopg.Error as error:
            print(type(error).__name__)
    fault.heal()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO big VALUES ('fits')")
        print(*connection.execute("SELECT count(*) FROM big").fetchone())
"""


def test_a_full_disk_refuses_what_does_not_fit_and_takes_it_when_healed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL],
        cwd=environment.PROJECT,
        env={**os.environ, "SHOP_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    said = done.stdout.split()
    assert said in (["DiskFull", "DiskFull", "1"], ["no", "disk"])
    assert os.geteuid() != 0 or sys.platform != "linux" or said[0] == "DiskFull"
    assert str(tmp_path) not in Path("/proc/mounts").read_text(), "other processes do not see it"
