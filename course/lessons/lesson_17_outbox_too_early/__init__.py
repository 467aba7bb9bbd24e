"""Lesson 17: the notifier dies between its two calls."""

from collections.abc import Callable
from typing import Any

from course.plan import OWN, Check, Faults, Flaw, Plan, Shop, nothing_wrong
from course.simulator.history import Text, Wrong, _
from course.simulator.process import Server
from course.simulator.simulation import Simulation
from course.simulator.world import World

MESSAGE = 7


class Outbox(Server):
    """The table of messages to send."""

    def __init__(self, world: World, messages: tuple[int, ...]) -> None:
        super().__init__(world, "postgres")
        self.left = [*messages]

    def pending(self) -> list[int]:
        """Return the ids of the messages that are not done."""
        return self.call(("SELECT", "pending"), self.left.copy)

    def mark_done(self, message: int) -> None:
        """Mark a message as done."""
        self.call(("UPDATE", message, "done"), lambda: self.left.remove(message))


class Mailer(Server):
    """The mail server, which knows a message that it has sent already."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "mail")
        self.sent: list[int] = []

    def send(self, message: int) -> None:
        """Send the mail of a message."""
        self.call(("SEND", message), lambda: self.sent.append(message))


def clients(
    simulation: Simulation, kind: Callable[..., Any], *, messages: tuple[int, ...] = (MESSAGE,)
) -> None:
    """Let two notifiers run, one after the other; the first may die."""
    shop = Shop(simulation)
    outbox, mailer = Outbox(simulation.world, messages), Mailer(simulation.world)
    for name, at in (("A", 0.0), ("B", 10.0)):
        shop.start(name, lambda: kind(outbox, mailer).run_once(), at)

    def compare() -> None:
        for message in messages:
            words = _("the mail was never sent, and nobody will")
            if message not in outbox.left:
                words = _("the mail was never sent, and the outbox says that the mail is done")
            shop.expect(message in mailer.sent, Wrong.FORGOTTEN, Text(words))
        shop.expect(not outbox.left, Wrong.FORGOTTEN, Text(_("the message is never done")))

    simulation.world.on_end.append(compare)


THREE = {"messages": (MESSAGE, 8, 9)}

PLAN = Plan(
    flaws=(
        Flaw(
            "crash", Wrong.FORGOTTEN, Faults.CRASH_OR_SWITCH, OWN,
            breaks="before command 3 of A's run: crash",
        ),
    ),
    checks=(
        Check({}, Faults.CRASH_OR_SWITCH, tuple(Wrong)),
        Check(THREE, Faults.CRASH_OR_SWITCH, tuple(Wrong)),
    ),
    clients=clients,
    judge=nothing_wrong,
    quiet=({}, THREE),
    methods=("run_once",),
)  # fmt: skip
