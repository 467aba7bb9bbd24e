"""``manage.py prove``: a sale under load, recorded by the buyers and judged afterwards."""
