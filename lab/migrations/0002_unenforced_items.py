"""Let the books of some items be unbalanced, from the file beside this one."""

from pathlib import Path

from django.db import migrations

UNDO = """
CREATE OR REPLACE FUNCTION inventory_books_enforced(item bigint) RETURNS boolean
    LANGUAGE sql STABLE AS $$ SELECT true $$;
"""


class Migration(migrations.Migration):
    """See 0002_unenforced_items.sql."""

    dependencies = [("lab", "0001_initial")]

    operations = [
        migrations.RunSQL(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"), UNDO)
    ]
