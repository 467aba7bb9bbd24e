"""The tables of the shop; what has happened is never changed or deleted."""

from pathlib import Path

import datetime
from django.conf import settings
import django.core.validators
from django.db import migrations, models
import django.db.models.deletion
import django.db.models.functions.datetime
import shop.money

SQL = Path(__file__).with_name("0001_append_only.sql").read_text(encoding="utf-8")
UNDO = """
DROP TRIGGER shop_orderevent_frozen ON shop_orderevent;
DROP TRIGGER shop_refund_kept ON shop_refund;
DROP FUNCTION shop_timeline_is_append_only, shop_refunds_are_never_deleted;
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Product',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('name_zh', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='Chinese name')),
                ('slug', models.SlugField(unique=True)),
                ('description', models.TextField(blank=True)),
                ('description_zh', models.TextField(blank=True, db_default='', default='', verbose_name='Chinese description')),
                ('list_price', models.BigIntegerField(help_text='in minor units', validators=[django.core.validators.MinValueValidator(0)])),
                ('currency', models.CharField(default=shop.money.default_currency, max_length=3, validators=[shop.money.check_currency])),
            ],
        ),
        migrations.CreateModel(
            name='WebhookEvent',
            fields=[
                ('id', models.CharField(help_text="the provider's own", max_length=100, primary_key=True, serialize=False)),
                ('type', models.CharField(max_length=60)),
                ('received', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'ordering': ['-received'],
            },
        ),
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='the problem without its figures', max_length=300)),
                ('text', models.TextField()),
                ('opened', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('seen', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='by the last audit that found it')),
                ('closed', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ('-opened',),
                'constraints': [models.UniqueConstraint(condition=models.Q(('closed__isnull', True)), fields=('key',), name='shop_alert_one_open')],
            },
        ),
        migrations.CreateModel(
            name='Sale',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('price', models.BigIntegerField(help_text='of a unit, in minor units', validators=[django.core.validators.MinValueValidator(0)])),
                ('currency', models.CharField(default=shop.money.default_currency, max_length=3, validators=[shop.money.check_currency])),
                ('limit', models.PositiveIntegerField(default=1, help_text='units a buyer may have', validators=[django.core.validators.MinValueValidator(1)])),
                ('starts_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('ends_at', models.DateTimeField()),
                ('paused', models.BooleanField(default=False, help_text='nothing is sold while it is set')),
                ('hold', models.DurationField(default=datetime.timedelta(seconds=900), help_text='time to pay, before the units go back', validators=[django.core.validators.MaxValueValidator(datetime.timedelta(days=365))])),
                ('restock_cancelled', models.BooleanField(default=True, help_text='units of cancelled orders are sold again; otherwise they are written off')),
                ('restock_returned', models.BooleanField(default=True, help_text='units of returned orders are sold again; otherwise they are written off')),
                ('item', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='inventory.item')),
                ('product', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='shop.product')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('price__gte', 0)), name='shop_sale_price_not_negative'), models.CheckConstraint(condition=models.Q(('currency__regex', '^[A-Z]{3}$')), name='shop_sale_currency_is_a_code'), models.CheckConstraint(condition=models.Q(('limit__gte', 1)), name='shop_sale_limit_positive'), models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('starts_at'))), name='shop_sale_ends_after_start', violation_error_message='A sale must end after it starts.'), models.CheckConstraint(condition=models.Q(('hold__gt', datetime.timedelta(0))), name='shop_sale_hold_positive', violation_error_message='The time to pay (hold) must be longer than zero.')],
            },
        ),
        migrations.CreateModel(
            name='Order',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('amount', models.BigIntegerField(help_text='in minor units: to be paid, or paid; less what was cancelled')),
                ('currency', models.CharField(help_text='of all amounts of this order', max_length=3)),
                ('refunded', models.BigIntegerField(db_default=0, help_text='of what was paid, given back')),
                ('status', models.CharField(choices=[('awaiting_payment', 'awaiting payment'), ('paid', 'paid'), ('fulfilled', 'fulfilled'), ('expired', 'expired'), ('cancelled', 'cancelled'), ('refund_pending', 'refund pending'), ('refunded', 'refunded')], default='awaiting_payment', max_length=16)),
                ('pay_before', models.DateTimeField()),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('buyer', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['awaiting_payment', 'paid', 'fulfilled', 'expired', 'cancelled', 'refund_pending', 'refunded'])), name='shop_order_status_known'), models.CheckConstraint(condition=models.Q(('currency__regex', '^[A-Z]{3}$')), name='shop_order_currency_is_a_code')],
            },
        ),
        migrations.CreateModel(
            name='OrderLine',
            fields=[
                ('reservation', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, serialize=False, to='inventory.reservation')),
                ('quantity', models.PositiveIntegerField()),
                ('amount', models.BigIntegerField(help_text='in minor units')),
                ('order', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='lines', to='shop.order')),
                ('sale', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='shop.sale')),
            ],
            options={
                'ordering': ('reservation_id',),
            },
        ),
        migrations.CreateModel(
            name='OrderEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('paid', 'paid'), ('paid_late', 'paid late, and the units were still there'), ('fulfilled', 'fulfilled'), ('expired', 'expired'), ('cancelled', 'cancelled'), ('returned', 'returned'), ('refunded', 'refunded'), ('payment_failed', 'payment failed'), ('part_cancelled', 'part of it cancelled'), ('part_returned', 'part of it returned'), ('money_owed', 'paid too late or too much: money goes back'), ('money_back', 'money given back'), ('refund_failed', 'money could not be given back')], max_length=16)),
                ('amount', models.BigIntegerField(help_text='in minor units', null=True)),
                ('quantity', models.PositiveIntegerField(null=True)),
                ('key', models.UUIDField(help_text='idempotency key of what the buyer asked', null=True)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('order', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='events', to='shop.order')),
                ('line', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to='shop.orderline')),
            ],
            options={
                'ordering': ('pk',),
                'constraints': [models.UniqueConstraint(fields=('order', 'key'), name='shop_event_one_per_key')],
            },
        ),
        migrations.CreateModel(
            name='Payment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='idempotency key', max_length=60, unique=True)),
                ('intent', models.CharField(blank=True, help_text="the provider's own id", max_length=100)),
                ('amount', models.BigIntegerField(help_text="in minor units of the order's currency")),
                ('owed_back', models.BigIntegerField(db_default=0, help_text='given back, or on its way back')),
                ('state', models.CharField(choices=[('pending', 'pending'), ('captured', 'captured'), ('failed', 'failed')], default='pending', max_length=8)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('settled', models.DateTimeField(blank=True, null=True)),
                ('attempts', models.PositiveIntegerField(db_default=0, help_text='of the sweep')),
                ('not_before', models.DateTimeField(help_text='when the sweep looks at it')),
                ('order', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='payments', to='shop.order')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'pending')), fields=['not_before'], name='shop_payment_todo')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'pending')), fields=('order',), name='shop_payment_one_pending'), models.UniqueConstraint(condition=models.Q(('intent', ''), _negated=True), fields=('intent',), name='shop_payment_one_per_intent'), models.CheckConstraint(condition=models.Q(('state__in', ['pending', 'captured', 'failed'])), name='shop_payment_state_known'), models.CheckConstraint(condition=models.Q(('owed_back__gte', 0), ('owed_back__lte', models.F('amount'))), name='shop_payment_no_more_back_than_taken')],
            },
        ),
        migrations.CreateModel(
            name='Refund',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='idempotency key', max_length=100, unique=True)),
                ('number', models.CharField(blank=True, help_text="the provider's own id", max_length=100)),
                ('amount', models.BigIntegerField(help_text="in minor units of the order's currency")),
                ('reason', models.CharField(choices=[('returned', 'the buyer returned it'), ('too_late', 'paid after the order had ended'), ('too_much', 'more was paid than was still ordered')], max_length=8)),
                ('state', models.CharField(choices=[('pending', 'pending'), ('done', 'done'), ('failed', 'failed')], default='pending', max_length=7)),
                ('tries', models.PositiveIntegerField(db_default=1, help_text='a refund that failed for certain is tried again as another one')),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('settled', models.DateTimeField(blank=True, null=True)),
                ('attempts', models.PositiveIntegerField(db_default=0, help_text='of the sweep')),
                ('not_before', models.DateTimeField(help_text='when the sweep looks at it')),
                ('payment', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='refunds', to='shop.payment')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'pending')), fields=['not_before'], name='shop_refund_todo')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('number', ''), _negated=True), fields=('number',), name='shop_refund_one_per_number'), models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='shop_refund_of_something'), models.CheckConstraint(condition=models.Q(('state__in', ['pending', 'done', 'failed'])), name='shop_refund_state_known')],
            },
        ),
        migrations.RunSQL(SQL, UNDO),
    ]
