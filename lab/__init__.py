"""Everything that shows, proves, measures and teaches: a Django app of the demo only."""
