"""A shop started for a proof, on servers that faults may break.

With faults the shop speaks to its servers through proxies, has failpoints, and its web processes
run under a clock of their own: as far as the chosen faults need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
from django.conf import settings
from django.db import Error, connection
from urllib3.exceptions import HTTPError

from development import StackError
from development.embedded import ServerUrls
from development.folder import make_folder
from development.leftovers import private_folder
from lab import environment
from lab.proof import snapshot
from lab.stack import entry
from lab.stack.proxies import breakable, libfaketime
from lab.stack.stack import WITHOUT_LOAD, Stack
from loadtest.checker.snapshot import Item
from loadtest.fault_needs import CLOCK, DATABASE_PROXY, DISK, FAILPOINTS, REDIS_PROXY
from loadtest.faults import FAULTS, Target
from loadtest.run_plan import RunPlan
from shop.catalogue.models import Sale


@dataclass(frozen=True, slots=True)
class Testbed:
    """A running shop.

    Attributes:
        url: its address.
        stack: its processes, if they were started for the proof.
        target: what faults act on; None: nothing may be broken here.
        log: of its web processes; None if it is not on this machine.
        stays: whether its database can be asked after the run.
    """

    url: str
    stack: Stack | None = None
    target: Target | None = None
    log: Path | None = None
    stays: bool = True

    def items(self, sales: Sequence[int]) -> list[Item]:
        """Read the stock of sales from the database; empty if it does not answer."""
        try:
            return snapshot.items(sales)
        except Error:
            connection.close()
            return []

    def available(self, sale: int) -> int | None:
        """Read the units available in a sale; None if the database does not say."""
        try:
            found = Sale.objects.select_related("item").get(pk=sale)
        except (Error, Sale.DoesNotExist):  # a database may have lost what it has committed
            return None
        finally:
            connection.close()  # a thread's own, which looks now and then
        return found.item.available

    def recover(self, say: Callable[[str], None]) -> None:
        """Restart what the load has kept busy, so that every process serves.

        Raises:
            StackError: a process did not come up again.
        """
        if self.stack is not None:
            restart(self.stack, say)


def has() -> frozenset[str]:
    """What faults need that can be had on this machine."""
    servers = entry.used.embedded
    there = {REDIS_PROXY, DATABASE_PROXY, FAILPOINTS}
    if libfaketime():
        there.add(CLOCK)
    if servers is not None and servers.disk is not None:
        there.add(DISK)
    return frozenset(there)


def running(url: str) -> Testbed:
    """The shop at an address; its log can be read if it is this project's demo."""
    return Testbed(url, log=environment.data_folder() / "demo" / "logs" / "web.log")


@contextmanager
def started(
    faults: Iterable[str] = (), extra: Mapping[str, str] | None = None
) -> Iterator[Testbed]:
    """A shop of its own on the servers of this command, prepared for these faults.

    Args:
        faults: their names; they need private servers.
        extra: environment variables of its processes.

    Raises:
        StackError: something does not come up, or there are no servers that faults may break.
    """
    faults = tuple(faults)
    needs = {need for name in faults for need in FAULTS[name].needs}
    if faults:
        needs.add(FAILPOINTS)
    servers = entry.used.embedded if entry.used.private else None
    if faults and servers is None:
        raise StackError(
            "Faults break the servers, so they need private ones: run `manage.py prove --fault …`."
        )
    with ExitStack() as cleanup:
        folder = cleanup.enter_context(private_folder())
        own = dict(extra or {})
        urls, parts = breakable(folder, ServerUrls.of_environment(), needs, cleanup)
        if servers is not None:
            # Mails and secrets of a private shop end with it.
            own["SHOP_DATA"] = str(make_folder(folder / "data"))
            # What this process itself tells the shop's processes goes through the same Redis.
            settings.REDIS_URL = urls.redis
        stack = cleanup.enter_context(Stack(folder, urls, extra=own, parts=parts))
        stack.start(*WITHOUT_LOAD)
        settings.PSP_URL, settings.MAIL_FOLDER = stack.psp_url, stack.mail_folder
        target = stack.target(servers) if faults and servers is not None else None
        yield Testbed(stack.url, stack, target, stack.supervisor.log_file("web"))


READY = 90
"""Seconds for everything to come up again before the final read."""


def restart(stack: Stack, tell: Callable[[str], None]) -> None:
    """Wait until every process serves, and none still works on requests of the run.

    Raises:
        StackError: one does not come up again.
    """
    # The buyers were stopped in the middle of their calls. A web process may still be working on
    # one, which would take effect after the final read.
    stack.supervisor.stop_program("web")
    stack.supervisor.start_program("web")
    for name in WITHOUT_LOAD:
        tell(f"waiting for {name}")
        stack.wait_until_ready(name, READY)


PAYING = frozenset({"holds", "parts", "walkers", "all"})
"""Mixes in which the payment provider misbehaves."""

PROVIDER: Mapping[str, Any] = {
    "processing": 250,
    "decline": 0.1,
    "lost": 0.05,
    "copies": 2,
    "shuffle": 400,
}
"""It takes its time, declines some, answers some not at all, repeats and shuffles its events."""


def behaviour_for(plan: RunPlan) -> Mapping[str, Any]:
    """How the payment provider behaves: where buyers have to pay on its page, it asks all of them.
    It misbehaves in some mixes, and not at all while faults break the shop.
    """
    asks = {"asks": 1.0} if plan.mix == "walkers" else {}
    if plan.faults or plan.mix not in PAYING:
        return asks
    return {**PROVIDER, **asks, "seed": plan.seed}


TIMEOUT = 10.0
"""Seconds for an answer, which the configured delay is part of."""


def misbehave(url: str, **behaviour: Any) -> None:
    """Let the payment provider misbehave from now on; see `development/psp/books.py`.

    A healthy shop survives everything but `bounce`: a refund that the provider refuses for good
    waits for an operator, so the buyer's money is still pending at the end.

    Args:
        url: of the provider.
        behaviour: by field; what is not named is as the provider's environment has it. So without
            any it behaves again.

    Raises:
        StackError: it does not answer, or knows no such behaviour.
    """
    try:
        answer = urllib3.request(
            "POST",
            f"{url}/v1/behaviour",
            json=behaviour,
            headers={"Authorization": f"Bearer {settings.PSP_KEY}", "Connection": "close"},
            timeout=TIMEOUT,
        )
    except HTTPError as error:
        raise StackError(f"The payment provider does not answer: {error}") from error
    if answer.status != 200:
        said = answer.data.decode(errors="replace")
        raise StackError(f"The payment provider refuses {behaviour}: {said}")
