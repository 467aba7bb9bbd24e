"""The events of the payment provider that were acted upon."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('shop', '0004_order_mails'),
    ]

    operations = [
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
    ]
