"""Change a table of another app in a migration of this one.

A field that a team adds to the shop's `Order` needs a migration. In `shop/migrations` it would be a
second leaf as soon as a later version of the shop brings one with the same parent, and `migrate`
would refuse both. In `own/migrations`, each side has its own chain:

    class Migration(migrations.Migration):
        dependencies = [("shop", "0007_product_texts")]
        operations = [InApp("shop", migrations.AddField("order", "address", models.TextField()))]
"""

from __future__ import annotations

from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState


class InApp(Operation):
    """An operation on another app's models.

    Args:
        app: the label of the models' app.
        operation: what is done there.
    """

    serialization_expand_args = ["operation"]

    def __init__(self, app: str, operation: Operation) -> None:
        self.app, self.operation = app, operation
        for like in ("atomic", "category", "reversible", "reduces_to_sql"):
            setattr(self, like, getattr(operation, like))

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Change what Django knows of the other app."""
        self.operation.state_forwards(self.app, state)

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Change the other app's tables."""
        self.operation.database_forwards(self.app, schema_editor, from_state, to_state)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Undo it."""
        self.operation.database_backwards(self.app, schema_editor, from_state, to_state)

    def describe(self) -> str:
        """Return what is done, and where."""
        return f"{self.app}: {self.operation.describe()}"

    @property
    def migration_name_fragment(self) -> Any:
        """What the file is named after."""
        return f"{self.app}_{self.operation.migration_name_fragment}"
