"""Simulated producers and consumers, and the histories of what they did and saw."""
