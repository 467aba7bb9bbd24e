"""The tables of the demo's payment provider, whose ledger is append-only."""

from pathlib import Path

from django.db import migrations, models
import django.db.models.deletion
import django.db.models.functions.datetime
import lab.psp.models

SQL = Path(__file__).with_name("0001_ledger.sql").read_text(encoding="utf-8")
UNDO = """
DROP TRIGGER psp_ledger_frozen ON psp_ledgerline;
DROP TRIGGER psp_ledger_book ON psp_ledgerline;
DROP FUNCTION psp_ledger_is_append_only, psp_book;
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='FaultConfiguration',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('settings', models.JSONField()),
            ],
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('key', models.CharField(max_length=255, primary_key=True, serialize=False)),
                ('request', models.CharField(help_text='SHA-256 of what was asked', max_length=64)),
                ('status', models.SmallIntegerField(null=True)),
                ('answer', models.JSONField(null=True)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.CharField(default=lab.psp.models.event_id, max_length=40, primary_key=True, serialize=False)),
                ('body', models.TextField()),
                ('remaining', models.PositiveSmallIntegerField(default=1, help_text='copies still to deliver')),
                ('attempts', models.PositiveIntegerField(db_default=0)),
                ('due', models.DateTimeField()),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('remaining__gt', 0)), fields=['due'], name='psp_event_due')],
            },
        ),
        migrations.CreateModel(
            name='Intent',
            fields=[
                ('id', models.CharField(default=lab.psp.models.intent_id, max_length=40, primary_key=True, serialize=False)),
                ('order', models.BigIntegerField(db_index=True)),
                ('amount', models.BigIntegerField()),
                ('currency', models.CharField(max_length=3)),
                ('status', models.CharField(choices=[('requires_capture', 'Requires Capture'), ('processing', 'Processing'), ('captured', 'Captured'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='requires_capture', max_length=16)),
                ('captured', models.BigIntegerField(db_default=0)),
                ('refunded', models.BigIntegerField(db_default=0)),
                ('due', models.DateTimeField(help_text='when a capture in processing is decided', null=True)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('status', 'processing')), fields=['due'], name='psp_intent_due')],
                'constraints': [models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='psp_intent_of_something'), models.CheckConstraint(condition=models.Q(('captured', 0), ('captured', models.F('amount')), _connector='OR'), name='psp_intent_captured_once'), models.CheckConstraint(condition=models.Q(models.Q(('captured', models.F('amount')), ('status', 'captured')), models.Q(models.Q(('status', 'captured'), _negated=True), ('captured', 0)), _connector='OR'), name='psp_intent_captured_by_the_ledger'), models.CheckConstraint(condition=models.Q(('refunded__gte', 0), ('refunded__lte', models.F('captured'))), name='psp_intent_refunds_within_captures')],
            },
        ),
        migrations.CreateModel(
            name='Refund',
            fields=[
                ('id', models.CharField(default=lab.psp.models.refund_id, max_length=40, primary_key=True, serialize=False)),
                ('amount', models.BigIntegerField()),
                ('status', models.CharField(choices=[('pending', 'Pending'), ('succeeded', 'Succeeded'), ('failed', 'Failed')], default='pending', max_length=16)),
                ('due', models.DateTimeField(help_text='when it is decided')),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('intent', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='refunds', to='psp.intent')),
            ],
        ),
        migrations.CreateModel(
            name='LedgerLine',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('operation', models.CharField(choices=[('capture', 'Capture'), ('refund', 'Refund')], max_length=8)),
                ('amount', models.BigIntegerField()),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('intent', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='psp.intent')),
                ('refund', models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, to='psp.refund')),
            ],
        ),
        migrations.AddIndex(
            model_name='refund',
            index=models.Index(condition=models.Q(('status', 'pending')), fields=['due'], name='psp_refund_due'),
        ),
        migrations.AddConstraint(
            model_name='refund',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='psp_refund_of_something'),
        ),
        migrations.AddConstraint(
            model_name='ledgerline',
            constraint=models.UniqueConstraint(condition=models.Q(('operation', 'capture')), fields=('intent',), name='psp_one_capture'),
        ),
        migrations.AddConstraint(
            model_name='ledgerline',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='psp_ledger_of_something'),
        ),
        migrations.AddConstraint(
            model_name='ledgerline',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('operation', 'capture'), ('refund', None)), models.Q(('operation', 'refund'), ('refund__isnull', False)), _connector='OR'), name='psp_ledger_refund_named'),
        ),
        migrations.RunSQL(SQL, UNDO),
    ]
