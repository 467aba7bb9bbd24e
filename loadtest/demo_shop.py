"""The shop's calls for load tests: fresh sales, figures, snapshots, money."""

from __future__ import annotations

import http.client
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Seconds for an answer; a snapshot may take longer to come than to begin.
_TIMEOUT = 30.0


class ShopRefused(RuntimeError):
    """The shop did not do it; says why."""


class DemoShop:
    """A shop in demo mode.

    `beside` are sales from which carts were filled as well: they belong to what is asked of a sale.
    """

    def __init__(self, address: tuple[str, int], beside: Sequence[str] = ()) -> None:
        self._address = address
        self._beside = f"?beside={','.join(beside)}" if beside else ""

    def strategies(self) -> list[dict[str, Any]]:
        """Its ways of selling, the default first. Raises `ShopRefused`."""
        found: list[dict[str, Any]] = self._ask("GET", "strategies")["strategies"]
        return found

    def open_sale(self, *, stock: int, limit: int, strategy: str, starts_in: float) -> str:
        """Open a fresh sale: its id. Raises `ShopRefused`."""
        wish = {"stock": stock, "limit": limit, "strategy": strategy, "starts_in": starts_in}
        return str(self._ask("POST", "sales", wish)["sale"])

    def figures(self, sale: str) -> dict[str, Any]:
        """What the sale has come to. Raises `ShopRefused`."""
        return self._ask("GET", f"sales/{sale}/figures{self._beside}")

    def restock(self, sale: str, units: int) -> None:
        """Add units. Raises `ShopRefused`, after which they may have been added."""
        self._ask("POST", f"sales/{sale}/restock", {"units": units})

    def snapshot(self, sale: str, path: Path) -> None:
        """Write all tables of the sale to `path`, which is there only if it is whole.

        Raises `ShopRefused`.
        """
        self._fetch(f"sales/{sale}/snapshot{self._beside}", path)

    def ledger(self, sale: str, path: Path) -> None:
        """Write what the payment provider moved for the sale to `path`, if it is whole.

        Raises `ShopRefused`.
        """
        self._fetch(f"sales/{sale}/ledger{self._beside}", path)

    def _fetch(self, what: str, path: Path) -> None:
        unfinished = path.with_suffix(".part")
        connection, response = self._send("GET", what, None)
        try:
            with unfinished.open("wb") as file:
                shutil.copyfileobj(response, file)
        except (OSError, http.client.HTTPException) as error:
            raise ShopRefused(f"{what} was cut short: {error!r}") from error
        finally:
            connection.close()
        unfinished.rename(path)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        connection, response = self._send(method, path, body)
        try:
            answer: dict[str, Any] = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ShopRefused(f"no answer to {path}: {error!r}") from error
        finally:
            connection.close()
        return answer

    def _send(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(*self._address, timeout=_TIMEOUT)
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request(
                method, f"/api/v1/demo/{path}", data, {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ShopRefused(f"the shop does not answer: {error}") from error
        if response.status >= 300:
            said = response.read(500).decode(errors="replace")
            connection.close()
            hint = "; has it SHOP_DEMO=1?" if response.status == 404 else ""
            raise ShopRefused(f"{method} demo/{path}: {response.status} {said}{hint}")
        return connection, response
