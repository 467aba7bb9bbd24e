"""`python -m lab.mail_server --port 8791 --folder mail`: a mail server that keeps what it takes.

It sends nothing on. A mail that it has accepted is a file of the folder, named after the order in
its Message-ID. Proofs read there which mails were delivered and to whom; columns of the shop's own
could say anything.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from argparse import ArgumentParser
from email.parser import BytesHeaderParser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    # At run time only where it serves; others only read the names below.
    from aiosmtpd.smtp import SMTP, Envelope, Session

log = logging.getLogger(__name__)

NO_ORDER = 0
"""The order of a mail whose Message-ID names none."""

MESSAGE_ID = re.compile(r"<([a-z_]+)\.(\d{1,19})@[^<>@]+>")
"""The occasion and the order, as the shop's Message-IDs name them: <confirmation.17@shop>."""


class Keeper:
    """Keeps mails as files; a handler of aiosmtpd.

    Args:
        folder: for the files, `ORDER.UNIQUE.eml`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Keep a mail, then accept it."""
        content = envelope.content or b""
        mail = content if isinstance(content, bytes) else content.encode()
        try:
            self._keep(envelope.rcpt_tos, mail)
        except OSError as error:
            log.error("a mail could not be kept: %s", error)
            return "451 The mail could not be kept"
        return "250 Kept"

    def _keep(self, recipients: list[str], mail: bytes) -> None:
        found = MESSAGE_ID.fullmatch(str(BytesHeaderParser().parsebytes(mail)["Message-ID"]))
        order = int(found[2]) if found else NO_ORDER
        path = self._folder / f"{order}.{uuid4().hex}.eml"
        # The recipients are those of the SMTP envelope, whatever the mail's own headers say.
        head = "".join(f"Delivered-To: {recipient}\r\n" for recipient in recipients)
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(head.encode() + mail)
        unfinished.rename(path)


async def serve(address: str, port: int, folder: Path) -> None:
    """Serve until SIGTERM or SIGINT."""
    from aiosmtpd.smtp import SMTP

    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    loop, ends = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ends.set)
    # Looking up the machine's own name may take seconds.
    protocol = partial(SMTP, Keeper(folder), hostname="localhost", enable_SMTPUTF8=True, loop=loop)
    # Not closed by hand: that would wait for clients that keep their connections.
    await loop.create_server(protocol, address, port)
    await ends.wait()


def main() -> None:
    """Serve as the command line says."""
    parser = ArgumentParser(description="Take mails and keep them as files.")
    parser.add_argument("--bind", default="127.0.0.1", metavar="ADDRESS")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    os.umask(0o077)
    asyncio.run(serve(options.bind, options.port, options.folder))


if __name__ == "__main__":
    main()
