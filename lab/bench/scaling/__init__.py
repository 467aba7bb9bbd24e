"""A model of one hot item on many web nodes, fitted to this machine and checked on it."""
