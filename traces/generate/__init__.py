"""Traces of any size, made up from a seed, with anomalies of known number and position."""
