"""A cluster of the machines in one process, broken in every way by one seed."""
