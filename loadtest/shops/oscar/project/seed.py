from django.contrib.auth import get_user_model
from oscar.apps.catalogue.models import ProductClass
from oscar.apps.offer.models import Benefit, Condition, Range
from oscar.apps.partner.models import Partner

ProductClass.objects.create(name="Ticket", slug="ticket", requires_shipping=False, track_stock=True)
Partner.objects.create(name="Warehouse", code="warehouse")
get_user_model().objects.create_superuser("admin", "admin@example.com", "flash-sale-proof")

# What a voucher gives: 1.00 off anything.
anything = Range.objects.create(name="Anything", includes_all_products=True)
Condition.objects.create(range=anything, type="Count", value=1)
Benefit.objects.create(range=anything, type="Absolute", value=1)
