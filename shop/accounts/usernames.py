"""The normal form of user names.

`Jessica`, `jessica` and `JEẞICA` in full-width letters look alike or are typed for one another, so
they are one account. Accounts are stored under the normal form (the database checks it), and every
name that is typed is converted before it is looked up or counted.
"""

from __future__ import annotations

import unicodedata


def normal(name: str) -> str:
    """Return the normal form of a name: case folding and Unicode's NFKC.

    One may undo the other (NFKC turns `℡` into `TEL`), so both repeat until nothing changes.
    """
    while (folded := unicodedata.normalize("NFKC", name.casefold())) != name:
        name = folded
    return name
