"""An oscar shop never sells a unit twice, and everything else stays oscar's.

`GUARDED=0` runs the rush alone, without the forks: there it must oversell.
"""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from threading import Barrier

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import TransactionTestCase
from oscar.apps.order.exceptions import UnableToPlaceOrder
from oscar.apps.shipping.methods import Free
from oscar.core.loading import get_class, get_model
from oscar.core.prices import Price
from oscar.test.factories import create_product

Basket = get_model("basket", "Basket")
Line = get_model("order", "Line")
Order = get_model("order", "Order")
ProductClass = get_model("catalogue", "ProductClass")
Selector = get_class("partner.strategy", "Selector")
StockRecord = get_model("partner", "StockRecord")


def a_product(units, **options):
    """Return a product with stock."""
    return create_product(price=Decimal("9.99"), num_in_stock=units, **options)


def a_basket(*products, quantity=1):
    """Return a guest's basket."""
    basket = Basket.objects.create()
    basket.strategy = Selector().strategy()
    for product in products:
        basket.add_product(product, quantity)
    return basket


def place(basket):
    """Place the order of a basket, as oscar's checkout and its API do."""
    total = Price("GBP", excl_tax=basket.total_excl_tax, tax=Decimal(0))
    free = Price("GBP", excl_tax=Decimal(0), tax=Decimal(0))
    creator = get_class("order.utils", "OrderCreator")()
    return creator.place_order(basket, total, Free(), free, user=None)


class Shop(TransactionTestCase):
    """Tests with commits, since each order is one."""

    def assert_in_step(self):
        """Compare every item with oscar's numbers, and the books with themselves."""
        from guarded.models import GuardedStock
        from inventory.audit import audit

        for guarded in GuardedStock.objects.select_related("stockrecord", "item"):
            left = max(0, guarded.stockrecord.net_stock_level)
            self.assertEqual(guarded.item.available, left)
        self.assertEqual(audit().problems, [])


class Rush(Shop):
    """Both shops, with and without the guard."""

    def test_a_rush(self):
        """120 buyers, who have all seen the product available, want 20 units."""
        product = a_product(20)
        baskets = [a_basket(product) for _ in range(120)]
        together = Barrier(24)

        def buy(basket):
            together.wait()
            try:
                place(basket)
            except UnableToPlaceOrder:
                return False
            finally:
                connection.close()
            return True

        with ThreadPoolExecutor(24) as crowd:
            sold = sum(crowd.map(buy, baskets))
        record = product.stockrecords.get()
        self.assertEqual(Order.objects.count(), sold)
        self.assertEqual(record.num_allocated, sold)
        if settings.GUARDED:
            self.assertEqual(sold, 20)
            self.assert_in_step()
        else:
            self.assertGreater(sold, 20)


class Guarded(Shop):
    """What users of oscar would meet."""

    def test_order_gets_all_its_lines_or_is_not_placed(self):
        """The refusal names the product, and nothing of the order stays."""
        plenty, few = a_product(5), a_product(1)
        place(a_basket(plenty, few))
        basket = a_basket(plenty)
        basket.lines.create(
            product=few, stockrecord=few.stockrecords.get(), line_reference="x", quantity=1
        )
        with self.assertRaisesMessage(UnableToPlaceOrder, f"{few.get_title()} is sold out."):
            place(basket)
        self.assertEqual(Order.objects.count(), 1)
        self.assertEqual(plenty.stockrecords.get().num_allocated, 1)
        self.assert_in_step()

    def test_cancelled_line_returns_its_units_once(self):
        """Cancelling twice, at once, returns them once, where oscar's own code would not."""
        product = a_product(5)
        [line] = place(a_basket(product, quantity=3)).lines.all()
        with ThreadPoolExecutor(4) as crowd:
            list(crowd.map(lambda _: self.cancel(line.pk, 3), range(4)))
        record = product.stockrecords.get()
        self.assertEqual((record.num_allocated, record.net_stock_level), (0, 5))
        self.assert_in_step()

    def cancel(self, line, units):
        """Cancel units of a line in a thread of its own."""
        try:
            Line.objects.get(pk=line).cancel_allocation(units)
        finally:
            connection.close()

    def test_part_of_a_line_is_shipped_and_the_rest_cancelled(self):
        """The reservation is confirmed when nothing is allocated any more."""
        from guarded.models import Allocation

        product = a_product(5)
        [line] = place(a_basket(product, quantity=3)).lines.all()
        line.consume_allocation(1)
        self.assert_in_step()
        line.cancel_allocation(2)
        record = product.stockrecords.get()
        self.assertEqual((record.num_in_stock, record.num_allocated), (4, 0))
        reserved = Allocation.objects.get(line=line).reservation
        self.assertEqual(
            (reserved.state, reserved.quantity, reserved.returned), ("confirmed", 3, 2)
        )
        self.assert_in_step()

    def test_refunded_line_comes_back_when_it_is_counted_in(self):
        """Oscar returns no shipped unit to stock; the dashboard's number does."""
        product = a_product(2)
        [line] = place(a_basket(product, quantity=2)).lines.all()
        line.consume_allocation(2)
        record = product.stockrecords.get()
        self.assertEqual(record.net_stock_level, 0)
        record.num_in_stock += 1
        record.save()
        place(a_basket(product))
        self.assert_in_step()

    def test_form_open_during_a_sale_keeps_its_allocations(self):
        """Oscar alone would write the old number of allocations and sell these units again."""
        product = a_product(3)
        form = product.stockrecords.get()
        place(a_basket(product, quantity=2))
        form.num_in_stock = 10
        form.save()
        self.assertEqual(product.stockrecords.get().net_stock_level, 8)
        self.assert_in_step()

    def test_stock_below_its_allocations_sells_nothing(self):
        """A stocktaking may find fewer units than were sold."""
        product = a_product(5)
        [line] = place(a_basket(product, quantity=4)).lines.all()
        record = product.stockrecords.get()
        record.num_in_stock = 2
        record.save()
        self.assertEqual(record.net_stock_level, -2)
        self.assert_in_step()
        line.cancel_allocation(3)
        self.assertEqual(product.stockrecords.get().net_stock_level, 1)
        self.assert_in_step()

    def test_stock_that_is_not_tracked_is_sold_without_a_guard(self):
        """Oscar allocates nothing there either."""
        from guarded.models import GuardedStock

        ProductClass.objects.create(name="download", track_stock=False)
        product = a_product(None, product_class="download")
        place(a_basket(product))
        self.assertFalse(GuardedStock.objects.exists())

    def test_shop_that_sells_is_guarded_and_can_go_back(self):
        """Orders from before have no reservation; oscar's columns are never anything but right."""
        from guarded.models import Allocation, GuardedStock

        product = a_product(5)
        [old] = place(a_basket(product, quantity=2)).lines.all()
        Allocation.objects.all().delete()
        GuardedStock.objects.all().delete()
        call_command("guard_stock", verbosity=0)
        [new] = place(a_basket(product)).lines.all()
        self.assert_in_step()
        old.cancel_allocation(2)
        new.cancel_allocation(1)
        self.assert_in_step()
        StockRecord.objects.update(num_in_stock=7)  # an import by SQL
        call_command("guard_stock", verbosity=0)
        record = product.stockrecords.get()
        self.assertEqual((record.num_in_stock, record.num_allocated), (7, 0))
        self.assert_in_step()
