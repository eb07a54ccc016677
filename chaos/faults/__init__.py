"""What goes wrong: scripts of faults, and the nemesis that carries them out."""
