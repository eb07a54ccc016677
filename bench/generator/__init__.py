"""Traces of any size, made up from a seed, with lies whose number and place are known."""
