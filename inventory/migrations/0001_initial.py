"""The tables of the stock, and the triggers that keep the books."""

from pathlib import Path

from django.db import migrations, models
import django.db.models.deletion
import django.db.models.functions.datetime

SQL = Path(__file__).with_name("0001_books.sql").read_text(encoding="utf-8")
UNDO = """
DROP TRIGGER inventory_item_fence ON inventory_item;
DROP TRIGGER inventory_item_books ON inventory_item;
DROP TRIGGER inventory_ledger_frozen ON inventory_stockmovement;
DROP TRIGGER inventory_ledger_insert ON inventory_stockmovement;
DROP TRIGGER inventory_reserved_insert ON inventory_reservation;
DROP TRIGGER inventory_reserved_update ON inventory_reservation;
DROP TRIGGER inventory_reserved_delete ON inventory_reservation;
DROP FUNCTION inventory_fence_never_falls, inventory_check_books, inventory_books_enforced,
    inventory_ledger_is_append_only, inventory_sum_ledger, inventory_count_reserved,
    inventory_require;
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='BuyerQuota',
            fields=[
                ('pk', models.CompositePrimaryKey('scope', 'buyer', blank=True, editable=False, primary_key=True, serialize=False)),
                ('scope', models.BigIntegerField()),
                ('buyer', models.BigIntegerField()),
                ('used', models.PositiveIntegerField()),
                ('allowed', models.PositiveIntegerField()),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('used__gte', 0), ('used__lte', models.F('allowed'))), name='inventory_buyerquota_within_limit')],
            },
        ),
        migrations.CreateModel(
            name='Item',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('total', models.BigIntegerField(help_text='units stocked and not written off')),
                ('available', models.BigIntegerField(help_text='units that may still be reserved')),
                ('reserved', models.BigIntegerField(default=0, editable=False, help_text='units held or confirmed; kept by a trigger')),
                ('ledger', models.BigIntegerField(default=0, editable=False, help_text='sum of the movements; kept by a trigger')),
                ('fence', models.BigIntegerField(default=0, editable=False, help_text='highest fencing token that wrote here')),
                ('version', models.BigIntegerField(default=0, editable=False, help_text='counts changes of available, to put them in order')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('available__gte', 0)), name='inventory_item_available_not_negative'), models.CheckConstraint(condition=models.Q(('available__lte', models.F('total'))), name='inventory_item_available_within_total')],
            },
        ),
        migrations.CreateModel(
            name='OutboxMessage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('topic', models.CharField(max_length=50)),
                ('key', models.CharField(blank=True, db_default='', help_text='what it is about: one message per topic and key', max_length=100)),
                ('queue', models.CharField(blank=True, db_default='', help_text='which workers handle it', max_length=20)),
                ('payload', models.JSONField()),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('done', models.DateTimeField(blank=True, null=True)),
                ('dead', models.DateTimeField(blank=True, null=True)),
                ('attempts', models.PositiveIntegerField(db_default=0)),
                ('not_before', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='back-off after a failure')),
                ('error', models.TextField(blank=True, db_default='')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('dead__isnull', True), ('done__isnull', True)), fields=['queue', 'not_before'], name='inventory_outbox_todo'), models.Index(condition=models.Q(('dead__isnull', False)), fields=['dead'], name='inventory_outbox_dead')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('key', ''), _negated=True), fields=('key', 'topic'), name='inventory_outbox_one_per_key')],
            },
        ),
        migrations.CreateModel(
            name='StockMovement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('delta', models.BigIntegerField()),
                ('reason', models.CharField(choices=[('restock', 'restock'), ('sale', 'sale'), ('release', 'release'), ('reclaim', 'taken again'), ('write_off', 'written off')], max_length=10)),
                ('token', models.BigIntegerField(help_text='fencing token of the writer, if it had one', null=True)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('item', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='inventory.item')),
            ],
        ),
        migrations.CreateModel(
            name='Reservation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('scope', models.BigIntegerField(help_text="what the limit applies to; the shop's sale")),
                ('buyer', models.BigIntegerField(help_text="the shop's buyer")),
                ('key', models.UUIDField(help_text="idempotency key, the buyer's own")),
                ('quantity', models.PositiveIntegerField(help_text='units granted; never changes')),
                ('returned', models.PositiveIntegerField(db_default=0, help_text='of these, units given back while the others were kept')),
                ('state', models.CharField(choices=[('held', 'held'), ('confirmed', 'confirmed'), ('released', 'released')], default='held', max_length=9)),
                ('token', models.BigIntegerField(help_text='fencing token it was granted under', null=True)),
                ('deadline', models.DateTimeField(help_text='when a held reservation may be released')),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('item', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='inventory.item')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'held')), fields=['deadline'], name='inventory_reservation_due')],
                'constraints': [models.UniqueConstraint(fields=('buyer', 'key'), name='inventory_reservation_one_per_key'), models.CheckConstraint(condition=models.Q(('quantity__gte', 1)), name='inventory_reservation_quantity_positive'), models.CheckConstraint(condition=models.Q(('returned__lt', models.F('quantity'))), name='inventory_reservation_some_kept'), models.CheckConstraint(condition=models.Q(('state__in', ['held', 'confirmed', 'released'])), name='inventory_reservation_state_known')],
            },
        ),
        migrations.RunSQL(SQL, UNDO),
    ]
