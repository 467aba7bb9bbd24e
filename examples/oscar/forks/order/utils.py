"""Place an order only if the guard grants all its units."""

from django.utils.translation import gettext as _
from oscar.apps.order.exceptions import UnableToPlaceOrder
from oscar.apps.order.utils import OrderCreator as CoreOrderCreator

from guarded import stock
from inventory.services import NotReserved


class SoldOut(UnableToPlaceOrder, ValueError):
    """Oscar's pages show the first kind of error to the buyer, its API the second."""


class OrderCreator(CoreOrderCreator):
    """Allocates as oscar does and reserves the same units, in the order's transaction."""

    def __init__(self):
        """Remember the lines of one order."""
        self.lines = {}

    def create_line_models(self, order, basket_line, extra_line_fields=None):
        """Create the line, which its reservation will refer to."""
        line = super().create_line_models(order, basket_line, extra_line_fields)
        self.lines[basket_line.pk] = line
        return line

    def update_stock_records(self, line):
        """Reserve a basket line's units; called for all of them, ordered by stock record."""
        super().update_stock_records(line)
        if line.product.get_product_class().track_stock:
            try:
                stock.reserve(self.lines[line.pk])
            except NotReserved as error:
                raise SoldOut(_("%s is sold out.") % line.product.get_title()) from error
