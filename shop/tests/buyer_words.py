"""Words that buyers never read: they name how the shop works, not what it sells."""

from __future__ import annotations

import re

INNER = re.compile(
    r"\b(strateg\w*|lock(s|ed|ing)?|ledgers?|guard(ed)?|fenc\w*|redis|postgres\w*|celery)\b"
    r"|策略|锁|账本|台账|队列|守卫",
    re.IGNORECASE,
)
