"""The identity of the database (see `shop.identity`)."""

from typing import Any

import django.db.models.functions.datetime
import shop.identity
from django.db import migrations, models


def make_first(apps: Any, schema_editor: Any) -> None:
    """Give the database its first identity."""
    identities = apps.get_model("shop", "Identity").objects
    identities.using(schema_editor.connection.alias).create(value=shop.identity.new_identity())


class Migration(migrations.Migration):

    dependencies = [
        ('shop', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Identity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('value', models.CharField(default=shop.identity.new_identity, max_length=16, unique=True)),
                ('since', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'verbose_name_plural': 'identities',
            },
        ),
        migrations.RunPython(make_first, migrations.RunPython.noop),
    ]
