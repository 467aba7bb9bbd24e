from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # An index that is built inside a transaction blocks writes, and so the sale.
    atomic = False

    dependencies = [("shop", "0005_listed_sales")]

    operations = [
        AddIndexConcurrently(
            model_name="sale",
            index=models.Index(
                condition=models.Q(("listed", True)),
                fields=["ends_at", "id"],
                name="shop_sale_listed_by_end",
            ),
        ),
    ]
