"""The tables of the lab, where some items' books may be unbalanced."""

from django.db import migrations, models
import django.db.models.deletion
import lab.models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_initial'),
        ('shop', '0001_initial'),
    ]

    operations = [
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
    ]
