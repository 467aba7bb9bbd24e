"""Typed addresses wait for their confirmation; mails are counted per address.

Addresses that accounts have already count as confirmed: they stay in `accounts_user.email`.
"""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_initial'),
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='AddressMails',
            fields=[
                ('digest', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('since', models.DateTimeField(db_index=True)),
                ('number', models.PositiveIntegerField()),
            ],
            options={
                'verbose_name_plural': 'address mails',
            },
        ),
        migrations.CreateModel(
            name='PendingAddress',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='pending_address', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('address', models.EmailField(max_length=254)),
                ('since', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), db_index=True)),
            ],
            options={
                'verbose_name_plural': 'pending addresses',
            },
        ),
    ]
