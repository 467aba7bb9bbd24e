"""The books of every item are enforced; what only a laboratory needs leaves the schema."""

import re
from pathlib import Path

from django.db import migrations

HERE = Path(__file__)
BOOKS = HERE.with_name("0002_books.sql").read_text(encoding="utf-8")
DROP_TRIGGER = "DROP TRIGGER inventory_item_books ON inventory_item"


def as_before(pattern: str) -> str:
    """Return the statement of the first books that the pattern finds."""
    found = re.search(pattern, BOOKS, re.DOTALL)
    assert found is not None
    return found[0]


CHECK_AS_BEFORE = as_before(r"CREATE FUNCTION inventory_check_books\(\).*?END \$\$;")
TRIGGER_AS_BEFORE = as_before(r"CREATE CONSTRAINT TRIGGER inventory_item_books.*?;")
UNDO = f"""
{DROP_TRIGGER};
{CHECK_AS_BEFORE.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")}
DROP FUNCTION inventory_books_enforced;
"""


class Migration(migrations.Migration):
    """See 0007_books_enforced.sql."""

    dependencies = [("inventory", "0006_dead_messages")]

    operations = [
        migrations.RunSQL(DROP_TRIGGER, TRIGGER_AS_BEFORE),
        migrations.RemoveField(model_name="item", name="enforced"),
        migrations.RunSQL(HERE.with_suffix(".sql").read_text(encoding="utf-8"), UNDO),
        migrations.DeleteModel(name="StockUnit"),
        migrations.DeleteModel(name="StockBucket"),
    ]
