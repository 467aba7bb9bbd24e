"""Stock that is never oversold: a Django app without prices or pages.

A shop calls `inventory.services`. `inventory.selling.rules` decides what may be sold;
`inventory.selling.guard` enforces it in the database.
"""
