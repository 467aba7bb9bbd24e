"""Texts of the lock lab: those that its script writes, and translated titles."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

SCRIPT: dict[str, Promise] = {
    "ready": _("about to run"),
    "waiting": _("waits until %(until)s s"),
    "asleep": _("waits to be woken"),
    "works": _("holds the lock and works until %(until)s s"),
    "holds": _("holds the lock"),
    "paused": _("paused until %(until)s s"),
    "new": _("comes at %(until)s s"),
    "dead": _("process killed"),
    "done": _("finished"),
    "step": _("Step %(client)s"),
    "lose": _("Step %(client)s, lose the message"),
    "pause": _("Pause %(client)s for 15 s"),
    "kill": _("Kill %(client)s"),
    "until": _("Let time pass, to %(until)s s"),
    "no_event": _("Let time pass"),
    "expires": _("expires in %(left)s s"),
    "forever": _("never expires"),
    "empty": _("no keys"),
    "more": _("%(count)s more like these, until %(at)s s"),
    "broken": _("Broken: %(why)s"),
    "solved": _("You broke it. Moves: %(count)s."),
    "shown": _("This is the counterexample that the simulator found."),
    "also": _("Also: %(why)s"),
    "held": _("The run is over, and the failure did not occur."),
    "unbroken": _("The run is over and nothing went wrong. Take steps back, or start again."),
    "now": _("Time: %(now)s s. Moves: %(count)s."),
    "impossible": _("This move is not possible here: %(why)s"),
    "offline": _("The server did not answer. Please try again."),
    "searching": _("Searching…"),
    "passed": _("Well done: none of %(tried)s schedules breaks your lock."),
    "frame": _("Move %(at)s of %(count)s: %(move)s"),
    "play": _("Play"),
    "stop": _("Stop"),
    "progress": _("%(done)s of %(total)s broken"),
    "fail-over": _("Fail the server over"),
    "evict": _("Evict the key"),
    "clock-jump": _("Set a server's clock ahead"),
}
"""By name; the placeholders are filled in by the script."""

TITLES: dict[str, Promise] = {
    text: _(text)
    for text in (
        gettext_noop("The holder crashes between its two commands"),
        gettext_noop("Two waiters find the same dead key at once"),
        gettext_noop(
            "A waiter repairs the key of a holder that is alive, between its two commands"
        ),
        gettext_noop("EXPIRE is given a point in time, where it takes a duration"),
        gettext_noop("A client whose clock is fast steals a live lock"),
        gettext_noop("The loser's GETSET moves the winner's deadline"),
        gettext_noop("A late holder reads another's deadline, and deletes it"),
        gettext_noop("The key goes away between GET and GETSET"),
        gettext_noop("The work outlasts the expiry, and DEL hits the next"),
        gettext_noop("The key expires and is taken between GET and DEL"),
        gettext_noop("The work outlasts the lease, and two are inside"),
        gettext_noop("No waiter is woken: the first to poll wins"),
        gettext_noop("The holder's process is paused, not dead, past its lease"),
        gettext_noop("The primary fails over before the key was copied"),
        gettext_noop("The message that the lock is free is lost"),
        gettext_noop("The holder's process is paused after the majority agreed"),
        gettext_noop("One server's clock jumps after the majority agreed"),
        gettext_noop("The cleaner removes the row of a slow, living holder"),
        gettext_noop("Without a cleaner, the row of a crashed holder stays"),
        gettext_noop("The row does not exist yet, so nothing is locked"),
        gettext_noop("A forgotten transaction holds the row"),
        gettext_noop("Two workers refund the same order at once"),
        gettext_noop("memcached needs the memory, and evicts the lock"),
        gettext_noop("SETNX, then EXPIRE"),
        gettext_noop("SETNX, then EXPIRE, repaired by TTL"),
        gettext_noop("SETNX with the deadline as value, GET, GETSET"),
        gettext_noop("now > GET and now > GETSET, in a busy loop"),
        gettext_noop("SETNX and EXPIRE in one Lua script"),
        gettext_noop("SET NX EX, then DEL"),
        gettext_noop("SET NX PX token, GET, compare, DEL"),
        gettext_noop("SET NX PX token, compare-and-delete in Lua"),
        gettext_noop("the textbook lock with a watchdog"),
        gettext_noop("Redlock over five servers"),
        gettext_noop("a row in a table"),
        gettext_noop("SELECT … FOR UPDATE on a lock row"),
        gettext_noop("a unique index as the lock"),
        gettext_noop("memcached add and cas"),
        gettext_noop("two holders at once"),
        gettext_noop("nobody can ever enter"),
        gettext_noop("another's lock released"),
        gettext_noop("another's lock changed"),
        gettext_noop("the lock is held by nobody"),
        gettext_noop("order violated"),
        gettext_noop("a stale write accepted"),
        gettext_noop("a waiter sleeps beside a free lock"),
    )
}
"""Translations of the titles of scenarios and lessons, and of failures, by the English text."""
