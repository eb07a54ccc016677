"""The protocol machines: one module for each TLA+ module, without clock, randomness or I/O."""
