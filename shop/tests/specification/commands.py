"""The door of the command line: the audit, and what follows the restore of a database."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from django.core.management import call_command
from django.db import connection

from shop.specification.order import AWAITING, Sale
from shop.tests.specification.words import overdue, pending_since
from shop.tests.specification.world import World

SILENT = "payments against the provider's ledger: ledger"


class Commands:
    """An operator's commands, and what they must print."""

    def __init__(self, world: World) -> None:
        self.world, self.model = world, world.model

    def audit(self, *options: str) -> dict[str, Any]:
        """Run the audit; return what it prints. It fails if the books do not balance."""
        out, code = StringIO(), None
        try:
            call_command("audit", "--json", *options, stdout=out)
        except SystemExit as end:
            code = end.code
        found: dict[str, Any] = json.loads(out.getvalue())
        assert code == (None if found["balanced"] else 1)
        return found

    def check_audit(self, late: list[str]) -> None:
        """Compare the audit's books, of all sales and of one, in both of its forms."""
        books = [self._book(sale) for sale in self.model.sales]
        unchecked = [SILENT] * (self.model.mood == "silent")
        found = self.audit()
        assert found["problems"] == found["repaired"] == []
        assert (found["balanced"], found["items"], found["overdue"]) == (True, books, late)
        assert found["unchecked"] == unchecked
        for book, sale in zip(books, self.model.sales, strict=True):
            one = self.audit(f"--sale={self.world.rows[sale].pk}")
            assert (one["items"], one["problems"]) == ([book], [])
            assert one["overdue"] == list(overdue(self.model.now, pending_since(self.model, sale)))
        with redirect_stdout(StringIO()) as printed:
            call_command("audit")
        written = printed.getvalue()
        for book in books:
            assert re.search(r"\s+".join(map(str, book.values())), written), written
        assert [line[2:] for line in written.splitlines() if line.startswith("! ")] == late
        assert ("not checked" in written) == bool(unchecked)
        assert "The books balance." in written

    def _book(self, sale: Sale) -> dict[str, int]:
        held, confirmed = self._units(sale)
        return {
            "item": self.world.rows[sale].item_id,
            "total": sale.total,
            "available": self.model.available(sale),
            "held": held,
            "confirmed": confirmed,
            "ledger": self.model.available(sale),
            "oversold": 0,
        }

    def restore(self) -> int:
        """Skip numbers, as after a restore of the database; return how many."""
        skipped, out, before = 1_000, StringIO(), self._numbers()
        call_command("after_restore", f"--skip={skipped}", stdout=out)
        after = self._numbers()
        assert after == {name: last + skipped for name, last in before.items()}
        assert out.getvalue().startswith(f"{len(after)} sequences continue {skipped} ids later")
        return skipped

    def _numbers(self) -> dict[str, int]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT sequencename, COALESCE(last_value, start_value) FROM pg_sequences "
                "WHERE schemaname = current_schema()"
            )
            return dict(cursor.fetchall())

    def _units(self, sale: Sale) -> tuple[int, int]:
        held = self.model.held
        unpaid = [order for order in self.model.orders if order.status == AWAITING]
        reserved = held(sale, unpaid)
        return reserved, held(sale, self.model.orders) - reserved
