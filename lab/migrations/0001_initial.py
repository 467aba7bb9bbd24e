"""The tables of the lab, where some items' books may be unbalanced."""

from pathlib import Path

from django.db import migrations, models
import django.db.models.deletion
import lab.models

SQL = Path(__file__).with_name("0001_unenforced_items.sql").read_text(encoding="utf-8")
UNDO = """
CREATE OR REPLACE FUNCTION inventory_books_enforced(item bigint) RETURNS boolean
    LANGUAGE sql STABLE AS $$ SELECT true $$;
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_initial'),
        ('shop', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Run',
            fields=[
                ('task', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('runs', models.PositiveBigIntegerField(default=0)),
                ('failures', models.PositiveBigIntegerField(default=0)),
                ('last', models.DateTimeField(help_text='when it last ended')),
                ('seconds', models.FloatField(help_text='how long that took')),
                ('result', models.CharField(blank=True, max_length=200)),
                ('last_failure', models.DateTimeField(blank=True, null=True)),
                ('error', models.TextField(blank=True)),
            ],
            options={
                'verbose_name': 'task',
            },
        ),
        migrations.CreateModel(
            name='SaleStrategy',
            fields=[
                ('sale', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, serialize=False, to='shop.sale')),
                ('name', models.CharField(choices=lab.models.strategy_choices, max_length=20, verbose_name='strategy')),
            ],
            options={
                'verbose_name_plural': 'sale strategies',
            },
        ),
        migrations.CreateModel(
            name='UnenforcedItem',
            fields=[
                ('item', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, serialize=False, to='inventory.item')),
            ],
        ),
        migrations.CreateModel(
            name='StockUnit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('item', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='inventory.item')),
            ],
        ),
        migrations.CreateModel(
            name='StockBucket',
            fields=[
                ('pk', models.CompositePrimaryKey('item_id', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveSmallIntegerField()),
                ('available', models.BigIntegerField()),
                ('item', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='inventory.item')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('available__gte', 0)), name='lab_stockbucket_not_negative')],
            },
        ),
        migrations.RunSQL(SQL, UNDO),
    ]
