"""The shop's calls for load tests: fresh sales, figures, snapshots, money."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from urllib3 import BaseHTTPResponse, HTTPConnectionPool
from urllib3.exceptions import HTTPError

from loadtest.checker.snapshot import Terms
from loadtest.full_shop import ShopRefused
from loadtest.sale_roles import SaleTerms

# Seconds for an answer; a snapshot may take longer to come than to begin.
_TIMEOUT = 30.0
# Threads that ask it at once, at most: a run restocks each of its sales and changes one.
_AT_ONCE = 16


class DemoShop:
    """A shop in demo mode.

    Attributes:
        address: its host and port.
        further_sales: from which carts were filled as well: they belong to what is asked of a sale.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        # Nothing is tried again: units that were added once must not be added twice.
        self._shop = HTTPConnectionPool(*address, timeout=_TIMEOUT, retries=False, maxsize=_AT_ONCE)
        self.address = address
        self.further_sales: Sequence[str] = ()

    @property
    def _query(self) -> str:
        return f"?further_sales={','.join(self.further_sales)}" if self.further_sales else ""

    def strategies(self) -> list[dict[str, Any]]:
        """Its ways of selling, the default first. Raises `ShopRefused`."""
        found: list[dict[str, Any]] = self._ask("GET", "strategies")["strategies"]
        return found

    def open_sale(self, terms: SaleTerms, starts_in: float) -> str:
        """Open a fresh sale, in so many seconds: its id. Raises `ShopRefused`."""
        wanted = {**asdict(terms), "starts_in": starts_in}
        return str(self._ask("POST", "sales", wanted)["sale"])

    def change(self, sale: str, **changes: Any) -> Terms:
        """Change a sale: the terms in force after it; without changes, those there are.

        `changes` are `price` in minor units, `paused`, and `starts_in` and `ends_in` in seconds
        from now. Raises `ShopRefused`, after which they may have been made.
        """
        return Terms(**{**self._ask("POST", f"sales/{sale}/terms", changes), "sale": sale})

    def figures(self, sale: str) -> dict[str, Any]:
        """What the sale has come to. Raises `ShopRefused`."""
        return self._ask("GET", f"sales/{sale}/figures{self._query}")

    def restock(self, sale: str, units: int) -> None:
        """Add units. Raises `ShopRefused`, after which they may have been added."""
        self._ask("POST", f"sales/{sale}/restock", {"units": units})

    def snapshot(self, sale: str, path: Path) -> None:
        """Write all tables of the sale to `path`, which is there only if it is whole.

        Raises `ShopRefused`.
        """
        self._fetch(f"sales/{sale}/snapshot{self._query}", path)

    def ledger(self, sale: str, path: Path) -> None:
        """Write what the payment provider moved for the sale to `path`, if it is whole.

        Raises `ShopRefused`.
        """
        self._fetch(f"sales/{sale}/ledger{self._query}", path)

    def deliveries(self, sale: str, path: Path) -> None:
        """Write the mails that the shop's mail server took about the sale to `path`, if all of
        them have come.

        Raises `ShopRefused`; its status is 404 where the shop's mails go elsewhere.
        """
        self._fetch(f"sales/{sale}/deliveries{self._query}", path)

    def _fetch(self, what: str, path: Path) -> None:
        unfinished = path.with_suffix(".part")
        with self._send("GET", what, None) as response, unfinished.open("wb") as file:
            try:
                file.writelines(response.stream())
            except (OSError, HTTPError) as error:
                raise ShopRefused(f"{what} was cut short: {error!r}") from error
        unfinished.rename(path)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        with self._send(method, path, body) as response:
            try:
                answer: dict[str, Any] = response.json()
            except (OSError, HTTPError, ValueError) as error:
                raise ShopRefused(f"no answer to {path}: {error!r}") from error
        return answer

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> BaseHTTPResponse:
        try:
            response = self._shop.request(
                method,
                f"/api/v1/demo/{path}",
                json=body,
                headers={"Connection": "close", "Content-Type": "application/json"},
                preload_content=False,
            )
        except HTTPError as error:
            raise ShopRefused(f"the shop does not answer: {error}") from error
        if response.status >= 300:
            with response:
                said = response.read(500).decode(errors="replace")
            hint = "; has it SHOP_DEMO=1?" if response.status == 404 else ""
            raise ShopRefused(
                f"{method} demo/{path}: {response.status} {said}{hint}", response.status
            )
        return response
