"""Tables of the team's own, such as one row for each order: `OneToOneField("shop.Order", ...)`."""
