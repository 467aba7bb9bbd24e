"""Keep items in step with oscar's stock records. Every function runs in its caller's transaction.

A change of an item's units locks the stock record's row first, so the two never differ at a commit.
"""

from datetime import timedelta
from uuid import uuid4

from oscar.core.loading import get_model

from guarded.models import Allocation, GuardedStock
from inventory import services
from inventory.models import Reservation
from inventory.outcomes import Purchase

NO_LIMIT = 2**31 - 1
UNTIL_CANCELLED = timedelta(days=36_500)
"""Oscar allocates units until they are shipped or cancelled; its orders do not expire."""


def lock(stockrecord_id):
    """Return the stock record as it is now, with its row locked."""
    return get_model("partner", "StockRecord").objects.select_for_update().get(pk=stockrecord_id)


def reserve(line):
    """Reserve the units of an order's line; the stock record's row is locked.

    Raises:
        services.NotReserved: fewer units are left. The transaction must roll back.
    """
    item = GuardedStock.objects.get(pk=line.stockrecord_id).item_id
    buyer = line.order.user_id or -line.order_id  # a guest is a buyer of one order
    wanted = Purchase(item, item, buyer, uuid4(), line.quantity, NO_LIMIT, UNTIL_CANCELLED)
    [granted] = services.reserve_inside([wanted])
    Allocation.objects.create(line=line, reservation_id=granted.reservation)


def cancel(line, units):
    """Return units of a line that oscar has just cancelled."""
    if units:
        record = lock(line.stockrecord_id)
        reserved = Allocation.objects.filter(pk=line.pk).values_list("reservation", flat=True)
        with services.releasing(reserved, units=units):
            pass
        settle(line)
        align(record)


def settle(line):
    """Confirm what is left of a line's reservation once nothing of it is allocated any more."""
    reserved = Allocation.objects.filter(pk=line.pk, reservation__state=Reservation.State.HELD)
    for allocation in reserved if line.num_allocated == 0 else ():
        services.confirm(allocation.reservation_id, late=True)


def align(record):
    """Give a locked stock record's item the units that oscar says are left.

    Returns:
        The number of units added (negative: removed); None where oscar tracks no stock.
    """
    if not record.can_track_allocations:
        return None
    left = max(0, record.net_stock_level)
    guarded = GuardedStock.objects.select_related("item").filter(pk=record.pk).first()
    if guarded is None:
        item = services.stock(f"stock record {record.pk}", left)
        GuardedStock.objects.create(stockrecord=record, item=item)
        return left
    added = left - guarded.item.available
    if added > 0:
        services.restock(guarded.item_id, added)
    elif added < 0:
        services.write_off(guarded.item_id, -added)
    return added
