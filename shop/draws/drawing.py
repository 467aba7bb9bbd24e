"""What the shop does for a draw, from its announcement to the last winner.

    announce → (the window) → close → reveal → public value, if one is named → place → offer …

Each step is one transaction, guarded by a condition on the draw's row that the step itself ends. So
a crash between two steps is followed by the next one, and a step that runs twice changes nothing
the second time. `advance` takes every step that is due; a task calls it every other second.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any, LiteralString
from uuid import UUID, uuid5

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

from inventory import services
from inventory.outcomes import Granted, Purchase, PurchasesRefused
from inventory.postgresql.base import lend_connections
from shop.catalogue.models import Sale
from shop.catalogue.sales import open_sale
from shop.draws.models import REVEAL_WITHIN, Draw, Place
from shop.draws.sources import NotKnownYet, fetch, is_fetched
from shop.draws.verify import commitment_to, first_hash, key_of
from shop.orders import Opened, open_orders
from shop.orders.models import OrderLine

log = logging.getLogger(__name__)

LEAD = timedelta(seconds=10)
"""Time between the announcement of a draw for an existing sale and the sale's start: no purchase
may be under way that still takes the sale for one of the first who come."""

WINNERS = 256
"""Winners in one transaction."""

KEYS = UUID("c1b5a8e2-2f5e-4e0b-9a3b-8f1c6f1a7d34")
"""Namespace of the idempotency keys of winners' reservations."""

# `sha256(outer || sha256(inner || message))` is HMAC-SHA256 (RFC 2104): so a million places are
# computed and sorted where the entries are. `int8send` gives 8 bytes, the most significant first.
PLACE: LiteralString = """
WITH draw AS (
    UPDATE draws_draw
    SET places = (SELECT count(*) FROM draws_entry WHERE draw_id = %(draw)s AND withdrawal IS NULL)
    WHERE sale_id = %(draw)s AND places IS NULL AND seed IS NOT NULL
      AND (source = '' OR public_value <> '')
    RETURNING sale_id
)
INSERT INTO draws_place (entry_id, draw_id, place)
SELECT id, sale_id, row_number() OVER (ORDER BY digest, number)
FROM draw CROSS JOIN (
    SELECT id, number, sha256(%(outer)s || sha256(%(inner)s || int8send(number))) AS digest
    FROM draws_entry WHERE draw_id = %(draw)s AND withdrawal IS NULL
) AS entry
ORDER BY digest, number
"""

BLOCK = 64
"""Bytes of a block of SHA-256."""


class Raced(Exception):
    """Another worker offers to the same winners. Nothing was written."""


class SeedLost(Exception):
    """The seed cannot be opened, or is not the one that was committed to."""


def announce(sale: int, *, source: str = "", per_address: bool = False) -> Draw:
    """Make a sale that has not begun a draw, and commit to its seed.

    Args:
        sale: id of the sale.
        source: where the public value comes from (`shop.draws.sources`); empty if there is none.
        per_address: whether an entry must state an address, which enters once.

    Raises:
        ValidationError: it begins within `LEAD`, is a draw already, or has orders.
    """
    with transaction.atomic():
        if not _announceable(sale, LEAD).update(kind=Sale.Kind.DRAW):
            raise ValidationError("A draw is announced before its sale begins.")
        return _commit_to_seed(sale, source, per_address)


def may_be_announced(sale: int, lead: timedelta) -> bool:
    """Whether a sale may become a draw: it has no orders, and begins no sooner than in `lead`."""
    return _announceable(sale, lead).exists()


def _announceable(sale: int, lead: timedelta) -> QuerySet[Sale]:
    coming = Sale.objects.filter(pk=sale, starts_at__gte=Now() + lead)
    ordered = OrderLine.objects.filter(sale=OuterRef("pk"))
    return coming.filter(~Exists(ordered), kind=Sale.Kind.FIRST_COME)


def open_draw(*, source: str = "", per_address: bool = False, **about: Any) -> Draw:
    """Create a sale with an item of its own that is a draw; the arguments are `open_sale`'s.

    Raises:
        ValidationError: an argument is invalid; nothing was created.
    """
    with transaction.atomic():
        sale = open_sale(**about)
        Sale.objects.filter(pk=sale.pk).update(kind=Sale.Kind.DRAW)
        return _commit_to_seed(sale.pk, source, per_address)


def _commit_to_seed(sale: int, source: str, per_address: bool) -> Draw:
    seed, nonce = secrets.token_bytes(32), secrets.token_bytes(16)
    commitment = commitment_to(seed)
    draw = Draw(
        sale_id=sale,
        commitment=commitment,
        nonce=nonce,
        sealed=_seal(seed, nonce, settings.SECRET_KEY),
        source=source,
        per_address=per_address,
        head=first_hash(commitment, source),
    )
    draw.clean_fields(exclude=["sale", "commitment", "nonce", "sealed", "head", "seed"])
    draw.save(force_insert=True)
    return draw


def _seal(seed: bytes, nonce: bytes, secret_key: str | bytes) -> bytes:
    """Encrypt or decrypt a seed under a secret key, so that a copy of the database is not enough.

    The stream of one block is HMAC-SHA256 of a nonce that is used for this seed alone, and the
    commitment tells whether what was decrypted is the seed.
    """
    stream = salted_hmac("shop.draws.seed", nonce, secret=secret_key, algorithm="sha256").digest()
    return bytes(one ^ other for one, other in zip(seed, stream, strict=True))


def _open_seed(draw: Draw) -> bytes:
    for secret_key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        seed = _seal(bytes(draw.sealed), bytes(draw.nonce), secret_key)
        if commitment_to(seed) == bytes(draw.commitment):
            return seed
    raise SeedLost(f"the seed of {draw} cannot be opened with SECRET_KEY or its fallbacks")


def advance(seconds: float = math.inf) -> int:
    """Take the steps that are due of all draws, for at most that long; return their number.

    Safe to run anywhere, at any time. A draw that fails is logged and tried again by the next run,
    and does not hold up the others.
    """
    steps = 0
    end = time.monotonic() + seconds
    for draw in _due():
        try:
            while time.monotonic() < end and _step(draw):
                steps += 1
                draw.refresh_from_db()
        except (OperationalError, InterfaceError):
            raise  # the database is unreachable: a later run goes on
        except NotKnownYet as why:
            log.info("%s waits for its public value: %s", draw, why)
        except Raced:
            pass
        except Exception:
            log.exception("%s could not be continued; the next run tries again", draw)
    return steps


def _due() -> QuerySet[Draw]:
    over = Q(places=None) & (Q(closed__isnull=False) | Q(sale__ends_at__lte=Now()))
    may_offer = Q(offered__lt=F("places"), sale__item__available__gt=0, sale__paused=False)
    return Draw.objects.filter(over | may_offer).order_by("pk")


def _step(draw: Draw) -> bool:
    """Take the next step of a draw; return whether there was one."""
    if draw.closed is None:
        return close(draw)
    if draw.seed is None:
        return reveal(draw)
    if draw.source and not draw.public_value:
        if not is_fetched(draw.source):
            return False
        return enter_value(draw.pk, fetch(draw.source, draw.closed))
    if draw.places is None:
        return place(draw)
    return offer(draw.pk) > 0


def close(draw: Draw) -> bool:
    """Close a draw whose window is over by the database's clock; its last hash is final then.

    It waits for a batch that is being written, and no later one can be: each requires that the draw
    is not closed.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE draws_draw SET closed = clock_timestamp() FROM shop_sale AS sale
            WHERE sale_id = %s AND sale.id = sale_id AND closed IS NULL
              AND sale.ends_at <= clock_timestamp()
            """,
            [draw.pk],
        )
        return bool(cursor.rowcount == 1)


def reveal(draw: Draw) -> bool:
    """Publish the seed of a closed draw.

    At once, and before the public value is known: nobody can compute the order then, so there is
    nothing that the shop could like or dislike about it.

    Raises:
        SeedLost: it cannot be opened.
    """
    seed = _open_seed(draw)
    # Not later: by then the draw has failed, and a shop that could wait could choose.
    in_time = Q(sale__ends_at__gt=Now() - REVEAL_WITHIN)
    hidden = Draw.objects.filter(in_time, pk=draw.pk, closed__isnull=False, seed=None)
    return hidden.update(seed=seed, revealed=Now()) == 1


def enter_value(draw: int, value: str) -> bool:
    """Record the public value that a draw's source has given; return whether it was missing.

    Raises:
        ValidationError: it is empty, too long, or has characters that do not print.
    """
    value = clean_value(value)
    waiting = Draw.objects.filter(pk=draw, closed__isnull=False, public_value="").exclude(source="")
    return waiting.update(public_value=value, valued=Now()) == 1


def clean_value(value: str) -> str:
    """Return a public value without the spaces around it.

    Raises:
        ValidationError: it is empty, too long, or has characters that do not print.
    """
    value = value.strip()
    if not value or len(value) > 500 or not value.isprintable():
        raise ValidationError(_("The public value is one line of at most 500 characters."))
    return value


def place(draw: Draw) -> bool:
    """Compute the places of all entries; return whether they were missing."""
    assert draw.seed is not None
    key = key_of(bytes(draw.seed), bytes(draw.head), draw.public_value)
    if len(key) > BLOCK:
        key = sha256(key).digest()
    key = key.ljust(BLOCK, b"\0")
    pads = {name: bytes(byte ^ pad for byte in key) for name, pad in PADS.items()}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(PLACE, {"draw": draw.pk, **pads})
        return Draw.objects.filter(pk=draw.pk, places__isnull=False).exists()


PADS = {"inner": 0x36, "outer": 0x5C}


def offer(draw: int) -> int:
    """Reserve for the next winners in order, as many as units are available; return how many.

    Raises:
        Raced: another worker does so.
    """
    sale = Sale.objects.select_related("item").get(pk=draw)
    after = Draw.objects.values_list("offered", flat=True).get(pk=draw)
    units = min(sale.item.available, WINNERS)
    if sale.paused or units < 1:
        return 0
    following = Place.objects.filter(draw=draw, place__gt=after).order_by("place")[:units]
    rows = list(following.values_list("entry", "entry__buyer", "entry__number"))
    entries = {buyer: entry for entry, buyer, _ in rows}
    purchases = [
        Purchase(
            item=sale.item_id,
            scope=draw,
            buyer=buyer,
            key=uuid5(KEYS, f"{draw} {number}"),
            quantity=1,
            limit=sale.limit,
            hold=sale.hold,
        )
        for _, buyer, number in rows
    ]
    if not purchases:
        return 0
    try:
        outcomes = services.reserve_in_order(purchases, partial(open_for_winners, entries))
    except PurchasesRefused:
        return 0  # the sale was paused meanwhile
    finally:
        lend_connections()
    return sum(isinstance(outcome, Granted) and not outcome.replayed for outcome in outcomes)


def open_for_winners(entries: Mapping[int, int], granted: Sequence[Granted]) -> list[Opened]:
    """Open the orders of winners and move the draw on, in their reservations' transaction.

    Args:
        entries: the winners' entries, by buyer.
        granted: their reservations.

    Raises:
        Raced: these are not the next ones in order.
    """
    opened = open_orders(granted, won=True)
    draw = granted[0].purchase.scope
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH placed AS (
                UPDATE draws_place AS place SET order_id = won.opened
                FROM unnest(%(entries)s::bigint[], %(orders)s::bigint[]) AS won (entry, opened)
                WHERE place.entry_id = won.entry AND place.order_id IS NULL
                RETURNING place.place
            )
            UPDATE draws_draw SET offered = offered + %(number)s
            WHERE sale_id = %(draw)s
              AND (SELECT count(*) = %(number)s AND min(place) = offered + 1
                          AND max(place) = offered + %(number)s FROM placed)
            """,
            {
                "draw": draw,
                "number": len(granted),
                "entries": [entries[grant.purchase.buyer] for grant in granted],
                "orders": [order.pk for order in opened],
            },
        )
        if cursor.rowcount != 1:
            raise Raced(f"the next winners of draw {draw} are being served")
    return opened
