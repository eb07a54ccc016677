"""Timeouts for other threads and processes: as good as none, even on slow machines."""

PATIENCE_S = 180
