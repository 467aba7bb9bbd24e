"""An index of addresses in any case, built while the shop sells."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Upper


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('accounts', '0002_confirmed_addresses'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='user',
            index=models.Index(Upper('email'), name='accounts_user_email_upper'),
        ),
    ]
