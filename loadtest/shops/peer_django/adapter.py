"""The plain Django shop of our benchmark: row locked with SELECT … FOR UPDATE."""

from loadtest.shops.peer import Peer


class Adapter(Peer):
    """Its name; the rest is the same for both peers."""

    name = "plain Django shop"
