"""The API's calls about draws."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Annotated, Any, ClassVar

from django.db import connection
from django.http import HttpRequest, StreamingHttpResponse
from msgspec import Meta

from shop.api.operations import JSON_LINES, Answer, Operation, Result, by_method, no_content
from shop.api.schemas import Count, Document, Id, Moment, Request
from shop.catalogue.sales import database_time
from shop.draws import entering
from shop.draws.entering import MAX_ADDRESS, Receipt
from shop.draws.models import Draw
from shop.refusals import Refusal
from shop.shares import PURCHASES

Hash = Annotated[
    str, Meta(pattern="^[0-9a-f]{64}$", description="32 bytes, in hexadecimal digits.")
]

AT_ONCE = 5000
"""Lines of the public file that one query reads."""


class EntryRequest(Request):
    """What a buyer states to enter a draw."""

    codes: ClassVar[dict[str, str]] = {}

    address: Annotated[
        str,
        Meta(
            max_length=MAX_ADDRESS,
            description="Such as the shipping address. It enters once, however it is written. "
            "Needed if the draw has `per_address`.",
        ),
    ] = ""


class Entry(Document):
    """The receipt of an entry, and what became of it."""

    sale: Id
    buyer: Annotated[Id, Meta(description="Number of the buyer's account.")]
    number: Annotated[Id, Meta(description="Of the entry's line in the public list.")]
    entry: Annotated[Hash, Meta(description="What the list says of this entry.")]
    hash: Annotated[Hash, Meta(description="The running hash of the list up to this line.")]
    secret: Annotated[Hash, Meta(description="Shows whose entry it is. Keep it to yourself.")]
    created: Moment
    withdrawn: bool
    place: Annotated[int, Meta(ge=1, description="In the order of the draw.")] | None
    order: Annotated[Id, Meta(description="Of a winner, who may pay it.")] | None


class DrawDocument(Document):
    """A draw, and what has been published of it."""

    sale: Id
    status: Annotated[
        str,
        Meta(
            description="`failed`: the shop has not revealed the seed in time.",
            extra_json_schema={
                "enum": [
                    "not_started",
                    "paused",
                    "open",
                    "closed",
                    "awaiting_value",
                    "drawn",
                    "failed",
                ]
            },
        ),
    ]
    commitment: Annotated[Hash, Meta(description="SHA-256 of the seed.")]
    source: Annotated[str, Meta(description="Of the public value; empty if there is none.")]
    per_address: bool
    announced: Moment
    starts_at: Moment
    ends_at: Moment
    closed: Moment | None
    lines: Annotated[Count, Meta(description="Entries and withdrawals, when it is closed.")] | None
    last_hash: Hash | None
    seed: Hash | None
    public_value: str | None
    entries: Annotated[Count, Meta(description="That have a place.")] | None
    offered: Annotated[
        Count, Meta(description="Entries up to this place have won, if not all paid.")
    ]
    server_time: Moment


enters = partial(
    Operation, tag="Sales", share=PURCHASES, buyer=True, method="POST", body=EntryRequest
)
CLOSED = ("not_found", "not_started", "paused", "ended", "rate_limited", "busy")


@enters(
    answers={
        201: Answer(Entry, "The receipt."),
        200: Answer(Entry, "The receipt of the entry that the buyer has already."),
    },
    problems=(*CLOSED, "limit_reached"),
)
def enter_draw(request: HttpRequest, sale: int, *, buyer: int, body: EntryRequest) -> Result:
    """Enter a draw.

    One entry for each buyer and, if one is stated, for each address. It takes no stock. Entering
    again is entering once. What is answered has been committed: keep it, since nothing can be
    entered, left out or moved in the list up to it without contradicting it.
    """
    receipt = entering.enter(sale, buyer, body.address)
    return 201 if receipt.new else 200, entry_document(receipt)


@Operation(
    method="DELETE",
    tag="Sales",
    share=PURCHASES,
    buyer=True,
    answers={204: Answer(None, "It is withdrawn, now or earlier.")},
    problems=CLOSED,
)
def withdraw_entry(request: HttpRequest, sale: int, *, buyer: int) -> Result:
    """Withdraw an entry.

    The list gets one more line, which says so; earlier lines and receipts stay as they are. Until
    the draw closes, the buyer may enter again, at the end of the list.
    """
    entering.withdraw(sale, buyer)
    return no_content()


entries = by_method(enter_draw, withdraw_entry)


@Operation(
    method="GET",
    tag="Sales",
    buyer=True,
    answers={200: Answer(Entry, "The buyer's latest entry.")},
)
def show_entry(request: HttpRequest, sale: int, *, buyer: int) -> Result:
    """Show the buyer's own entry.

    Its receipt; after the draw its place; and the order, if it has won.
    """
    return 200, entry_document(*entering.receipt_of(sale, buyer))


@Operation(
    method="GET",
    tag="Sales",
    answers={200: Answer(DrawDocument, "The draw.")},
    max_age=1,
)
def show_draw(request: HttpRequest, sale: int) -> Result:
    """Show a draw.

    What has been published of it: the commitment before the window opens; the last hash and the
    seed when it has closed; and the public value.
    """
    draw, now = find(sale), database_time()
    return 200, DrawDocument(
        sale=sale,
        status=draw.status(now),
        commitment=bytes(draw.commitment).hex(),
        source=draw.source,
        per_address=draw.per_address,
        announced=draw.announced,
        starts_at=draw.sale.starts_at,
        ends_at=draw.sale.ends_at,
        closed=draw.closed,
        lines=draw.lines if draw.closed else None,
        last_hash=bytes(draw.head).hex() if draw.closed else None,
        seed=None if draw.seed is None else bytes(draw.seed).hex(),
        public_value=draw.public_value or None,
        entries=draw.places,
        offered=draw.offered,
        server_time=now,
    )


@Operation(
    method="GET",
    tag="Sales",
    answers={200: Answer(str, "The header, and the lines if the draw is closed.")},
)
def show_draw_file(request: HttpRequest, sale: int) -> Result:
    """Get the public file of a draw.

    A header and a line for each entry and each withdrawal, without personal data. With it, anybody
    can compute every place: `python shop/draws/verify.py draw.jsonl`.
    """
    return StreamingHttpResponse(public_file(find(sale)), content_type=JSON_LINES)


def find(sale: int) -> Draw:
    """Return the draw of a sale.

    Raises:
        Refusal: `not_found`.
    """
    draw = Draw.objects.select_related("sale").filter(pk=sale).first()
    if draw is None:
        raise Refusal("not_found")
    return draw


def entry_document(receipt: Receipt, place: int | None = None, order: int | None = None) -> Entry:
    """A receipt as the API shows it, with the place and the order if they are known."""
    return Entry(
        sale=receipt.sale,
        buyer=receipt.buyer,
        number=receipt.number,
        entry=receipt.mark.hex(),
        hash=receipt.hash.hex(),
        secret=receipt.secret.hex(),
        created=receipt.created,
        withdrawn=receipt.withdrawal is not None,
        place=place,
        order=order,
    )


def public_file(draw: Draw) -> Iterator[str]:
    """Yield the lines of the public file (`docs/draws.md`), a few thousand at a time."""
    header: dict[str, Any] = {
        "draw": draw.sale_id,
        "version": 1,
        "commitment": bytes(draw.commitment).hex(),
        "source": draw.source,
        "opens": _iso(draw.sale.starts_at),
        "closed": _iso(draw.closed),
        "lines": draw.lines if draw.closed else None,
        "last_hash": bytes(draw.head).hex() if draw.closed else None,
        "seed": None if draw.seed is None else bytes(draw.seed).hex(),
        "public_value": draw.public_value or None,
    }
    lines = _lines(draw) if draw.closed else iter(())
    return (json.dumps(line, ensure_ascii=False) + "\n" for line in chain([header], lines))


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _lines(draw: Draw) -> Iterator[dict[str, Any]]:
    for first in range(1, draw.lines + 1, AT_ONCE):
        with connection.cursor() as cursor:
            cursor.execute(
                """
                SELECT number, hash, mark, NULL FROM draws_entry
                WHERE draw_id = %(draw)s AND number >= %(first)s AND number < %(end)s
                UNION ALL
                SELECT withdrawal, withdrawal_hash, NULL, number FROM draws_entry
                WHERE draw_id = %(draw)s AND withdrawal >= %(first)s AND withdrawal < %(end)s
                ORDER BY number
                """,
                {"draw": draw.sale_id, "first": first, "end": first + AT_ONCE},
            )
            rows = cursor.fetchall()
        for number, running, mark, withdraws in rows:
            entry = {"withdraws": withdraws} if mark is None else {"entry": bytes(mark).hex()}
            yield {"number": number, **entry, "hash": bytes(running).hex()}
