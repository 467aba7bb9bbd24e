"""What a team adds to the shop that it took home: name and defaults, tables, migrations, templates.

`own` is a Django app before the shop's. What it has under the same name comes first: a template, a
command, a text of `locale/`. Migrations of the shop's tables belong here too (`own.operations`), so
that they never collide with those that a later version of the shop brings.
"""
