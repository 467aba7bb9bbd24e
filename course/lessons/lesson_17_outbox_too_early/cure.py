"""A notifier of the outbox: a message is done when its mail is sent, not before."""

from typing import Any


class Notifier:
    """`outbox` has `pending()` and `mark_done(message)`, `mailer` has `send(message)`."""

    def __init__(self, outbox: Any, mailer: Any) -> None:
        self.outbox = outbox
        self.mailer = mailer

    def run_once(self) -> None:
        """Send what is pending."""
        for message in self.outbox.pending():
            # A crash in between sends it again, which the mailer recognises.
            self.mailer.send(message)
            self.outbox.mark_done(message)
