"""The servers of a bed, from the distribution's packages: one file per kind."""
