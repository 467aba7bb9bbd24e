"""An example shop that sells seats, calls its orders bookings, and uses `inventory`."""
