"""The triggers that keep the books, from the file beside this one."""

from pathlib import Path

from django.db import migrations

UNDO = """
DROP TRIGGER inventory_item_fence ON inventory_item;
DROP TRIGGER inventory_item_books ON inventory_item;
DROP TRIGGER inventory_ledger_frozen ON inventory_stockmovement;
DROP TRIGGER inventory_ledger_insert ON inventory_stockmovement;
DROP TRIGGER inventory_reserved_insert ON inventory_reservation;
DROP TRIGGER inventory_reserved_update ON inventory_reservation;
DROP TRIGGER inventory_reserved_delete ON inventory_reservation;
DROP FUNCTION inventory_fence_never_falls, inventory_check_books,
    inventory_ledger_is_append_only, inventory_sum_ledger, inventory_count_reserved;
ALTER TABLE inventory_item RESET (fillfactor);
"""


class Migration(migrations.Migration):
    """See 0002_books.sql."""

    dependencies = [("inventory", "0001_initial")]

    operations = [
        migrations.RunSQL(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"), UNDO)
    ]
