"""Doubts that a partition's summaries leave: some checks, in one window or everywhere."""

LOG = "log"  # what is stored, what is read of it, and by whom
MIXED = "mixed"  # transactions that send and poll
Doubt = tuple[str, int]  # one of these or a check, and the window, NONE for all
