"""A proof of a shop whose locks are on a Redis Cluster."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from development.embedded import private_servers
from locking.redis_client import connect
from locking.tests.topologies import cluster_url
from shop.tests.processes import succeed

__all__ = ["cluster_url"]

pytestmark = [pytest.mark.long, pytest.mark.nightly, pytest.mark.timeout(400)]


def test_proof_on_a_redis_cluster_passes(cluster_url: str, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    words = ("--buyers", "100", "--stock", "60", "--seed", "7", "--json", out)
    with private_servers(durable=False) as servers:
        urls = replace(servers.urls, redis=cluster_url)
        env = {**os.environ, **urls.as_environment(), "SHOP_DEMO": "1"}
        succeed(sys.executable, "manage.py", "prove", *words, env=env, seconds=380)
    result = json.loads(out.read_text())
    judged = {each["id"]: each["verdict"] for each in result["properties"]}
    assert judged["P9"] == "pass", "fencing tokens came from the cluster"
    assert result["counts"]["sold_out"] > 0
    with connect(cluster_url) as client:
        assert client.dbsize() > 0
