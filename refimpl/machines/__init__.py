"""The protocol machines: one module for each TLA+ module, without clock, dice or I/O."""
