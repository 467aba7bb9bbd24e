"""Stories: the real shop and `shop/specification` side by side, through every door."""

import pytest

MODULES = ("acts", "buyers", "doors", "operator", "others", "page", "rest", "shown", "world")
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in MODULES))
