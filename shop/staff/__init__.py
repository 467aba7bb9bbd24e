"""What staff do: to orders, to sales, and with buyers' data.

The same guarded steps as those of the buyers do the work. Each act is kept in the order's history
with the operator's name and reason, and doing it again changes nothing. The pages for it are in
the admin (`shop.admin`).
"""
