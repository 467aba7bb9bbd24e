"""Stock that is never oversold, as a Django app that knows nothing of prices or pages.

A shop calls :mod:`inventory.services`. Whether something may be sold is decided in
:mod:`inventory.selling.rules`, and once more, in the database, by :mod:`inventory.selling.guard`.
"""
