"""The reference implementation: protocol machines, storage, controller, broker, wire and edge.

Machines, controller and broker do no I/O: clocks, randomness, disks and networks come in by
argument. Only `edge`, the real disk and the metadata stores' own edges know an operating system.
"""
