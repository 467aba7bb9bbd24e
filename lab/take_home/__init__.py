"""Copy the shop into a repository of its own, without the lab."""
