"""Amounts become whole numbers of a currency's minor unit; all so far are in CNY."""

from django.db import migrations, models

import shop.money
from django.core.validators import MinValueValidator

AMOUNTS = {
    "shop_product": ["list_price"],
    "shop_sale": ["price"],
    "shop_order": ["amount", "refunded"],
    "shop_orderline": ["amount"],
    "shop_orderevent": ["amount"],
    "shop_payment": ["amount", "owed_back"],
    "shop_refund": ["amount"],
}
"""All of a table at once: a constraint compares two columns of one."""

DIGITS = {"shop_product": 12, "shop_sale": 12}


def alter(table, kind, value):
    changes = [
        f"ALTER COLUMN {column} TYPE {kind} USING {value.format(column)}"
        for column in AMOUNTS[table]
    ]
    return f"ALTER TABLE {table} {', '.join(changes)}"


def to_minor(table):
    return alter(table, "bigint", "({} * 100)::bigint")


def to_major(table):
    return alter(table, f"numeric({DIGITS.get(table, 14)}, 2)", "{} / 100.0")


def field(model, name, **more):
    return migrations.AlterField(model, name, models.BigIntegerField(**more))


CURRENCY = models.CharField(
    max_length=3, default=shop.money.default_currency, validators=[shop.money.check_currency]
)


class Migration(migrations.Migration):
    """See above."""

    dependencies = [("shop", "0009_strategy_choices")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(to_minor(table), to_major(table)) for table in AMOUNTS
            ],
            state_operations=[
                field(
                    *("product", "list_price"),
                    validators=[MinValueValidator(0)],
                    help_text="in minor units",
                ),
                field(
                    *("sale", "price"),
                    validators=[MinValueValidator(0)],
                    help_text="of a unit, in minor units",
                ),
                field(
                    *("order", "amount"),
                    help_text="in minor units: to be paid, or paid; less what was cancelled",
                ),
                field(
                    *("order", "refunded"), db_default=0, help_text="of what was paid, given back"
                ),
                field("orderline", "amount", help_text="in minor units"),
                field("orderevent", "amount", null=True, help_text="in minor units"),
                field("payment", "amount", help_text="in minor units of the order's currency"),
                field(
                    *("payment", "owed_back"),
                    db_default=0,
                    help_text="given back, or on its way back",
                ),
                field("refund", "amount", help_text="in minor units of the order's currency"),
            ],
        ),
        # The rows that are there have CNY, whatever the default is by now.
        *(
            operation
            for model in ("product", "sale")
            for operation in (
                migrations.AddField(
                    model, "currency", models.CharField(max_length=3, default="CNY")
                ),
                migrations.AlterField(model, "currency", CURRENCY),
            )
        ),
        migrations.AddField(
            "order",
            "currency",
            models.CharField(
                max_length=3, default="CNY", help_text="of all amounts of this order"
            ),
            preserve_default=False,
        ),
        migrations.AddConstraint(
            "sale",
            models.CheckConstraint(
                condition=models.Q(currency__regex="^[A-Z]{3}$"),
                name="shop_sale_currency_is_a_code",
            ),
        ),
        migrations.AddConstraint(
            "order",
            models.CheckConstraint(
                condition=models.Q(currency__regex="^[A-Z]{3}$"),
                name="shop_order_currency_is_a_code",
            ),
        ),
    ]
