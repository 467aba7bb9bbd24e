"""The adapter of the Flask example: what an HTTP shop needs in order to be judged."""

import itertools
import json
from urllib.request import Request as Ask
from urllib.request import urlopen

from loadtest.shop import SOLD_OUT, Books, Level, Refused, Request, Sold, Unknown


class Adapter:
    """Sells one unit per buyer; a buyer is a number."""

    name, version, levels = "Flask example", "1", frozenset({Level.STOCK})

    def __init__(self, host):
        self.host = host
        self.numbers = itertools.count()

    def ask(self, method, path):
        """Send one of the owner's requests."""
        with urlopen(Ask(self.host + path, method=method), timeout=10) as answer:
            return json.load(answer)

    def open(self, units):
        """Put units on sale."""
        return str(self.ask("POST", f"/sales/{units}")["sale"])

    def buyers(self, sale, count):
        """Make buyers, others each time: whatever `buy` needs to act as one of them."""
        return [next(self.numbers) for _ in range(count)]

    def add_to_cart(self, sale, buyer):
        """Return nothing: there is no cart."""

    def prepare(self, sale, buyer, send):
        """Nothing comes before the last step."""

    def buy(self, sale, buyer):
        """Return the last step's request; the buyers' are sent together."""
        return Request("POST", f"/sales/{sale}/orders")

    def outcome(self, sale, buyer, response):
        """Say what the answer means."""
        if response.status == 201:
            return Sold(str(json.loads(response.body)["order"]))
        if response.status == 409:
            return Refused(SOLD_OUT)
        return Unknown(f"status {response.status}")

    def look(self, sale):
        """Name the command that shows the books to anybody."""
        return f"curl {self.host}/sales/{sale}"

    def books(self, sale):
        """Read what the shop itself says was sold."""
        said = self.ask("GET", f"/sales/{sale}")
        return Books(said["units"], said["available"], {str(order): 1 for order in said["orders"]})
