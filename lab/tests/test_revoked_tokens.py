"""A deactivated buyer's token, in the web processes of a running shop."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from development.embedded import private_servers
from lab.stack.stack import Stack
from lab.tests.composed import Client
from lab.tests.managed import manage
from shop.tests.processes import wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

BOTH = 30
"""Requests of which each of the two web processes surely gets some."""


def test_every_process_refuses_it_soon_and_serves_the_others_all_the_time(tmp_path: Path) -> None:
    with private_servers(durable=False) as servers:
        manage(servers.urls, "migrate", "--verbosity", "0")
        with Stack(tmp_path, servers.urls) as stack:
            stack.start("psp", "web")
            stays, leaves = Client(stack.port), [Client(stack.port) for _ in range(BOTH)]
            made = stays.ask("POST", "/api/v1/demo/buyers", {"count": 2}).body["tokens"]
            terms = {"stock": 100_000, "limit": 100_000}
            sale = stays.ask("POST", "/api/v1/demo/sales", terms).body["sale"]

            def buy(client: Client, token: str) -> int:
                return client.ask(
                    *("POST", f"/api/v1/sales/{sale}/orders", {"quantity": 1}),
                    Authorization=f"Bearer {token}",
                    Idempotency_Key=str(uuid4()),
                ).status

            assert {buy(each, made[0]) for each in leaves} == {201}
            with psycopg.connect(servers.urls.database) as console:
                user = made[0].partition(".")[0]
                console.execute("UPDATE accounts_user SET is_active = false WHERE id = %s", [user])

            def is_refused_everywhere() -> bool:
                assert buy(stays, made[1]) == 201
                return {buy(each, made[0]) for each in leaves} == {401}

            wait_for(is_refused_everywhere, 120)
            for each in (stays, *leaves):
                each.close()
