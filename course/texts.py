"""Texts of the lock lab: those that its script writes, and failures."""

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
    "lose-message": _("Step %(client)s, lose the message"),
    "lose-request": _("Step %(client)s, lose the request"),
    "lose-reply": _("Step %(client)s, lose the answer"),
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

FAILURES: dict[str, Promise] = {
    text: _(text)
    for text in (
        gettext_noop("two holders at once"),
        gettext_noop("nobody can ever enter"),
        gettext_noop("another's lock released"),
        gettext_noop("another's lock changed"),
        gettext_noop("the lock is held by nobody"),
        gettext_noop("order violated"),
        gettext_noop("a stale write accepted"),
        gettext_noop("a waiter sleeps beside a free lock"),
        gettext_noop("a buyer told what is not so"),
        gettext_noop("an order that is not there once"),
        gettext_noop("a message forgotten"),
        gettext_noop("oversold"),
    )
}
"""Translations of failures, by the English text."""
