"""The plain FastAPI shop of our benchmark: one guarded statement."""

from loadtest.shops.peer import Peer


class Adapter(Peer):
    """Its name; the rest is the same for both peers."""

    name = "plain FastAPI shop"
