"""The broker without I/O: `Node.handle(now, input)` returns messages to send and timers to set.

The simulator and the wire host the same node. Nothing here knows a clock, randomness, a socket, or
its observers.
"""
