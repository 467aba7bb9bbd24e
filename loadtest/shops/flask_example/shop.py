"""A shop in Flask that reads, checks and writes, as most programmers write it first.

`python shop.py 5000` oversells. `CURED=1 python shop.py 5000` repeats the check in the statement
that takes the unit, which is the whole cure.
"""

import os
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from flask import Flask

DATABASE = Path(tempfile.mkdtemp()) / "shop.sqlite"
CURED = os.environ.get("CURED")
PAYMENT = 0.05  # seconds that the payment provider takes

app = Flask(__name__)


def connect() -> sqlite3.Connection:
    """Open the database; an example need not survive a crash of the machine."""
    opened = sqlite3.connect(DATABASE, timeout=30)
    opened.execute("PRAGMA synchronous = OFF")
    return opened


@app.post("/sales/<int:units>")
def open_sale(units: int) -> tuple[dict[str, int | None], int]:
    """Put units on sale."""
    with connect() as database:
        row = database.execute("INSERT INTO sale (units, available) VALUES (?, ?)", (units, units))
    return {"sale": row.lastrowid}, 201


@app.get("/sales/<int:sale>")
def books(sale: int) -> dict[str, object]:
    """Show what is left, and who bought."""
    database = connect()
    found = database.execute("SELECT units, available FROM sale WHERE id = ?", (sale,)).fetchone()
    sold = database.execute("SELECT id FROM bought WHERE sale = ?", (sale,)).fetchall()
    return {"units": found[0], "available": found[1], "orders": [order for (order,) in sold]}


@app.post("/sales/<int:sale>/orders")
def buy(sale: int) -> tuple[dict[str, object], int]:
    """Sell one unit."""
    take = "UPDATE sale SET available = available - 1 WHERE id = ?"
    if CURED:
        take += " AND available > 0"  # the cure: the database decides, not what was read before
    with connect() as database:  # commits at its end
        query = "SELECT available FROM sale WHERE id = ?"
        (available,) = database.execute(query, (sale,)).fetchone()
        if available < 1:
            return {"error": "sold out"}, 409
        time.sleep(PAYMENT)
        if not database.execute(take, (sale,)).rowcount:
            return {"error": "sold out"}, 409
        order = database.execute("INSERT INTO bought (sale) VALUES (?)", (sale,)).lastrowid
    return {"order": order}, 201


if __name__ == "__main__":
    connect().executescript(
        """PRAGMA journal_mode = WAL;
        CREATE TABLE sale (id INTEGER PRIMARY KEY, units INTEGER, available INTEGER);
        CREATE TABLE bought (id INTEGER PRIMARY KEY, sale INTEGER);"""
    )
    app.run(host="127.0.0.1", port=int(sys.argv[1]), threaded=True)
