"""Stock that is never oversold: a Django app without prices or pages.

A shop calls :mod:`inventory.services`. :mod:`inventory.selling.rules` decides what may be sold;
:mod:`inventory.selling.guard` enforces it in the database.
"""
