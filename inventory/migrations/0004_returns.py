"""Reservations can be given back in part, and returned units can be written off."""

from pathlib import Path

from django.db import migrations, models

HERE = Path(__file__)
COUNT_RESERVED = HERE.with_suffix(".sql").read_text(encoding="utf-8")
# How it was counted before: the first function of the books.
COUNT_AS_BEFORE = (
    HERE.with_name("0002_books.sql")
    .read_text(encoding="utf-8")
    .partition("CREATE TRIGGER")[0]
    .replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
)


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0003_help_texts'),
    ]

    operations = [
        migrations.AddField(
            model_name='reservation',
            name='returned',
            field=models.PositiveIntegerField(db_default=0, help_text='of these, units given back while the others were kept'),
        ),
        migrations.AlterField(
            model_name='item',
            name='total',
            field=models.BigIntegerField(help_text='units stocked and not written off'),
        ),
        migrations.AlterField(
            model_name='reservation',
            name='quantity',
            field=models.PositiveIntegerField(help_text='units granted; never changes'),
        ),
        migrations.AlterField(
            model_name='stockmovement',
            name='reason',
            field=models.CharField(choices=[('restock', 'restock'), ('sale', 'sale'), ('release', 'release'), ('reclaim', 'taken again'), ('write_off', 'written off')], max_length=10),
        ),
        migrations.AddConstraint(
            model_name='reservation',
            constraint=models.CheckConstraint(condition=models.Q(('returned__lt', models.F('quantity'))), name='inventory_reservation_some_kept'),
        ),
        migrations.RunSQL(COUNT_RESERVED, COUNT_AS_BEFORE),
    ]
