"""Draws: buyers enter during a sale's window, and winners are drawn in an order that all can check.

One folder and one setting: with `SHOP_DRAWS=0` nothing imports it, and it may be deleted. What the
rest of the shop knows of draws is `Sale.kind`, by which it refuses purchases (`draw_only`).

`docs/draws.md` describes the procedure for buyers, and for anyone who writes another verifier.
"""
