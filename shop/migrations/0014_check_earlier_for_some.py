"""Check the rows that the constraint did not check when it was added, so that it locked nothing."""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("shop", "0013_earlier_for_some")]

    operations = [ValidateConstraint("sale", name="shop_sale_early_before_start")]
