"""Recorders: a run's observations as steps of the specs, for TLC and the checks of traces."""
