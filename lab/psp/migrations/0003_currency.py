"""Each payment names its currency; all so far are in CNY."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """See above."""

    dependencies = [("psp", "0002_ledger")]

    operations = [
        migrations.AddField(
            "intent",
            "currency",
            models.CharField(default="CNY", max_length=3),
            preserve_default=False,
        )
    ]
