"""The triggers that keep the ledger, from the file beside this one."""

from pathlib import Path

from django.db import migrations

UNDO = """
DROP TRIGGER psp_ledger_frozen ON psp_ledgerline;
DROP TRIGGER psp_ledger_book ON psp_ledgerline;
DROP FUNCTION psp_ledger_is_append_only, psp_book;
"""


class Migration(migrations.Migration):
    """See 0002_ledger.sql."""

    dependencies = [("psp", "0001_initial")]

    operations = [
        migrations.RunSQL(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"), UNDO)
    ]
