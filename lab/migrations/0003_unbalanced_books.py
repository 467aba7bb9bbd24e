"""Some items' books may be unbalanced: the lab replaces a part of the inventory's constraints."""

from django.db import migrations

CHECKED = "IF NOT FOUND"
EXCEPT_SOME = f"{CHECKED} OR EXISTS (SELECT FROM lab_unenforceditem WHERE item_id = NEW.id)"

REPLACE = """
DO $do$ BEGIN
    EXECUTE replace(pg_get_functiondef('inventory_check_books'::regproc), '{}', '{}');
END $do$;
"""

# Units of an item that was oversold come back only as far as there ever were any.
CAP = """
CREATE FUNCTION lab_cap_available() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM lab_unenforceditem WHERE item_id = NEW.id) THEN
        NEW.available := NEW.total;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER lab_cap_available BEFORE UPDATE ON inventory_item
    FOR EACH ROW WHEN (NEW.available > NEW.total) EXECUTE FUNCTION lab_cap_available();
"""
NO_CAP = "DROP TRIGGER lab_cap_available ON inventory_item; DROP FUNCTION lab_cap_available;"


class Migration(migrations.Migration):

    dependencies = [
        ('lab', '0002_control_room_permissions'),
        ('inventory', '0004_books_always_enforced'),
    ]

    operations = [
        migrations.RunSQL(
            REPLACE.format(CHECKED, EXCEPT_SOME), REPLACE.format(EXCEPT_SOME, CHECKED)
        ),
        migrations.RunSQL(CAP, NO_CAP),
    ]
