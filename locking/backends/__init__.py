"""One file a strategy of locking; import the one that you use."""
