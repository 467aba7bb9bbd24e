"""Prices by ISO 4217's minor units.

Until now, amounts were kept with as many decimal places as CLDR shows, which for these currencies is
none: 500 RSD were stored as 500, and shown as 500 RSD. They are 50000 now, and shown as before.

Orders stay as they are: what was asked of the payment provider for them, by ISO 4217, is what their
books say from now on.
"""

from typing import Any

from django.db import migrations
from django.db.models import F

PLACES = {
    2: ["AFN", "ALL", "IRR", "KPW", "LAK", "LBP", "MGA", "MMK", "RSD", "SOS", "SYP", "YER"],
    3: ["IQD"],
}
"""Currencies that CLDR shows without decimal places, by those of ISO 4217."""


def multiply(apps: Any, schema_editor: Any) -> None:
    """Express prices in the minor units of ISO 4217."""
    alias = schema_editor.connection.alias
    for places, currencies in PLACES.items():
        for model, name in (("Sale", "price"), ("Product", "list_price")):
            rows = apps.get_model("shop", model).objects.using(alias).filter(currency__in=currencies)
            rows.update(**{name: F(name) * 10**places})


def divide(apps: Any, schema_editor: Any) -> None:
    """Express prices in whole units again."""
    alias = schema_editor.connection.alias
    for places, currencies in PLACES.items():
        for model, name in (("Sale", "price"), ("Product", "list_price")):
            rows = apps.get_model("shop", model).objects.using(alias).filter(currency__in=currencies)
            rows.update(**{name: F(name) / 10**places})


class Migration(migrations.Migration):

    dependencies = [
        ('shop', '0003_discrepancies'),
    ]

    operations = [migrations.RunPython(multiply, divide)]
