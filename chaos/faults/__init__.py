"""Faults: scripts, and the nemesis that carries them out."""
