"""No strategy sells by a row per unit any more."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('lab', '0002_delete_run_stockbucket'),
    ]

    operations = [
        migrations.DeleteModel('StockUnit'),
    ]
