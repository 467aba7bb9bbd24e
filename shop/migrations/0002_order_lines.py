"""An order gets lines, so that one order can be of several reservations."""

import django.db.models.deletion
from django.db import migrations, models

# The last statement runs the foreign keys' checks now: a table with checks outstanding cannot be
# altered, and the next operations alter one.
COPY = """
INSERT INTO shop_orderline (reservation_id, order_id, sale_id, quantity, amount)
SELECT reservation_id, id, sale_id, quantity, amount FROM shop_order;
SET CONSTRAINTS ALL IMMEDIATE;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0003_help_texts'),
        ('shop', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='OrderLine',
            fields=[
                ('reservation', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, serialize=False, to='inventory.reservation')),
                ('quantity', models.PositiveIntegerField()),
                ('amount', models.DecimalField(decimal_places=2, max_digits=14)),
                ('order', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='lines', to='shop.order')),
                ('sale', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='shop.sale')),
            ],
        ),
        migrations.RunSQL(COPY),
        migrations.RemoveField(
            model_name='order',
            name='quantity',
        ),
        migrations.RemoveField(
            model_name='order',
            name='reservation',
        ),
        migrations.RemoveField(
            model_name='order',
            name='sale',
        ),
    ]
