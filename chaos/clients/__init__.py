"""Simulated producers and consumers, and the histories of their operations."""
