"""Neither is a task's run kept in a table any more, nor an item's stock in several rows."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('lab', '0001_initial'),
    ]

    operations = [
        migrations.DeleteModel('Run'),
        migrations.DeleteModel('StockBucket'),
    ]
