"""One file for each TLA+ module that has machines: its binding and its descriptor, `MODULE`."""
