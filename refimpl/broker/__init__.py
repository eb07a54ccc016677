"""The broker without I/O: `Node.handle(now, input)` answers what to send and when to come back.

The simulator and the wire host the same node. Nothing here knows a clock, randomness, a socket, or
who watches.
"""
