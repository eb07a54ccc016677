"""The simulator: a cluster of the machines in one process, and faults drawn from one seed."""
