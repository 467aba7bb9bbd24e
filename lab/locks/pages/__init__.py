"""The lock lab: the course's locks in the browser, with the visitor as the scheduler."""
