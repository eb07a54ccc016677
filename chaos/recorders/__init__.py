"""Recorders: observations of a run as steps of the specs, for TLC and for the checks of traces."""
