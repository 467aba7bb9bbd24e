"""A shop that is not ours: it sells seats, calls its orders bookings, and has taken `inventory`."""
