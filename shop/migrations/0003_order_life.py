"""The life of an order: its timeline, its payments and refunds, and what becomes of its units."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

FREEZE = """
CREATE FUNCTION shop_timeline_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the timeline of an order is append-only'
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER shop_orderevent_frozen BEFORE UPDATE OR DELETE ON shop_orderevent
    FOR EACH STATEMENT EXECUTE FUNCTION shop_timeline_is_append_only();

CREATE FUNCTION shop_refunds_are_never_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a refund is never deleted: its key says that it was asked for'
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER shop_refund_kept BEFORE DELETE ON shop_refund
    FOR EACH STATEMENT EXECUTE FUNCTION shop_refunds_are_never_deleted();
"""
THAW = """
DROP TRIGGER shop_orderevent_frozen ON shop_orderevent;
DROP TRIGGER shop_refund_kept ON shop_refund;
DROP FUNCTION shop_timeline_is_append_only, shop_refunds_are_never_deleted;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('shop', '0002_order_lines'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='OrderEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('paid', 'paid'), ('paid_late', 'paid late, and the units were still there'), ('fulfilled', 'fulfilled'), ('expired', 'expired'), ('cancelled', 'cancelled'), ('returned', 'returned'), ('refunded', 'refunded'), ('payment_failed', 'payment failed'), ('part_cancelled', 'part of it cancelled'), ('part_returned', 'part of it returned'), ('money_owed', 'paid too late or too much: money goes back'), ('money_back', 'money given back'), ('refund_failed', 'money could not be given back')], max_length=16)),
                ('amount', models.DecimalField(decimal_places=2, max_digits=14, null=True)),
                ('quantity', models.PositiveIntegerField(null=True)),
                ('key', models.UUIDField(help_text='idempotency key of what the buyer asked', null=True)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'ordering': ('pk',),
            },
        ),
        migrations.CreateModel(
            name='Payment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='idempotency key', max_length=60, unique=True)),
                ('intent', models.CharField(blank=True, help_text="the provider's own id", max_length=100)),
                ('amount', models.DecimalField(decimal_places=2, max_digits=14)),
                ('owed_back', models.DecimalField(db_default=0, decimal_places=2, help_text='given back, or on its way back', max_digits=14)),
                ('state', models.CharField(choices=[('pending', 'pending'), ('captured', 'captured'), ('failed', 'failed')], default='pending', max_length=8)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('settled', models.DateTimeField(blank=True, null=True)),
                ('attempts', models.PositiveIntegerField(db_default=0, help_text='of the sweep')),
                ('not_before', models.DateTimeField(help_text='when the sweep looks at it')),
            ],
        ),
        migrations.CreateModel(
            name='Refund',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='idempotency key', max_length=100, unique=True)),
                ('number', models.CharField(blank=True, help_text="the provider's own id", max_length=100)),
                ('amount', models.DecimalField(decimal_places=2, max_digits=14)),
                ('reason', models.CharField(choices=[('returned', 'the buyer returned it'), ('too_late', 'paid after the order had ended'), ('too_much', 'more was paid than was still ordered')], max_length=8)),
                ('state', models.CharField(choices=[('pending', 'pending'), ('done', 'done'), ('failed', 'failed')], default='pending', max_length=7)),
                ('tries', models.PositiveIntegerField(db_default=1, help_text='a refund that failed for certain is tried again as another one')),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('settled', models.DateTimeField(blank=True, null=True)),
                ('attempts', models.PositiveIntegerField(db_default=0, help_text='of the sweep')),
                ('not_before', models.DateTimeField(help_text='when the sweep looks at it')),
            ],
        ),
        migrations.RemoveConstraint(
            model_name='order',
            name='shop_order_status_known',
        ),
        migrations.AddField(
            model_name='order',
            name='refunded',
            field=models.DecimalField(db_default=0, decimal_places=2, help_text='of what was paid, given back', max_digits=14),
        ),
        migrations.AddField(
            model_name='sale',
            name='restock_cancelled',
            field=models.BooleanField(default=True, help_text='units of cancelled orders are sold again; otherwise they are written off'),
        ),
        migrations.AddField(
            model_name='sale',
            name='restock_returned',
            field=models.BooleanField(default=True, help_text='units of returned orders are sold again; otherwise they are written off'),
        ),
        migrations.AlterField(
            model_name='order',
            name='amount',
            field=models.DecimalField(decimal_places=2, help_text='to be paid, or paid; less what was cancelled', max_digits=14),
        ),
        migrations.AlterField(
            model_name='order',
            name='status',
            field=models.CharField(choices=[('awaiting_payment', 'awaiting payment'), ('paid', 'paid'), ('fulfilled', 'fulfilled'), ('expired', 'expired'), ('cancelled', 'cancelled'), ('refund_pending', 'refund pending'), ('refunded', 'refunded')], default='awaiting_payment', max_length=16),
        ),
        migrations.AddConstraint(
            model_name='order',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['awaiting_payment', 'paid', 'fulfilled', 'expired', 'cancelled', 'refund_pending', 'refunded'])), name='shop_order_status_known'),
        ),
        migrations.AddField(
            model_name='orderevent',
            name='line',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to='shop.orderline'),
        ),
        migrations.AddField(
            model_name='orderevent',
            name='order',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='events', to='shop.order'),
        ),
        migrations.AddField(
            model_name='payment',
            name='order',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='payments', to='shop.order'),
        ),
        migrations.AddField(
            model_name='refund',
            name='payment',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='refunds', to='shop.payment'),
        ),
        migrations.AddConstraint(
            model_name='orderevent',
            constraint=models.UniqueConstraint(fields=('order', 'key'), name='shop_event_one_per_key'),
        ),
        migrations.AddIndex(
            model_name='payment',
            index=models.Index(condition=models.Q(('state', 'pending')), fields=['not_before'], name='shop_payment_todo'),
        ),
        migrations.AddConstraint(
            model_name='payment',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'failed'), _negated=True), fields=('order',), name='shop_payment_one_live'),
        ),
        migrations.AddConstraint(
            model_name='payment',
            constraint=models.UniqueConstraint(condition=models.Q(('intent', ''), _negated=True), fields=('intent',), name='shop_payment_one_per_intent'),
        ),
        migrations.AddConstraint(
            model_name='payment',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['pending', 'captured', 'failed'])), name='shop_payment_state_known'),
        ),
        migrations.AddConstraint(
            model_name='payment',
            constraint=models.CheckConstraint(condition=models.Q(('owed_back__gte', 0), ('owed_back__lte', models.F('amount'))), name='shop_payment_no_more_back_than_taken'),
        ),
        migrations.AddIndex(
            model_name='refund',
            index=models.Index(condition=models.Q(('state', 'pending')), fields=['not_before'], name='shop_refund_todo'),
        ),
        migrations.AddConstraint(
            model_name='refund',
            constraint=models.UniqueConstraint(condition=models.Q(('number', ''), _negated=True), fields=('number',), name='shop_refund_one_per_number'),
        ),
        migrations.AddConstraint(
            model_name='refund',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='shop_refund_of_something'),
        ),
        migrations.AddConstraint(
            model_name='refund',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['pending', 'done', 'failed'])), name='shop_refund_state_known'),
        ),
        migrations.RunSQL(FREEZE, THAW),
    ]
