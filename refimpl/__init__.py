"""The protocol as pure machines: one per TLA+ module, with the same names and the same guards.

Nothing in here knows a clock, a socket or a disk. A step takes what it is told, changes the
state it belongs to, and leaves everything else to whoever called it.
"""
