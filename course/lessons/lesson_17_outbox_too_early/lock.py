"""A notifier of the outbox, broken: it marks a message before the mail is sent."""

from typing import Any


class Notifier:
    """`outbox` has `pending()` and `mark_done(message)`, `mailer` has `send(message)`.

    The mailer sends a message that it has sent before no second time.
    """

    def __init__(self, outbox: Any, mailer: Any) -> None:
        self.outbox = outbox
        self.mailer = mailer

    def run_once(self) -> None:
        """Send what is pending."""
        for message in self.outbox.pending():
            self.outbox.mark_done(message)
            self.mailer.send(message)
