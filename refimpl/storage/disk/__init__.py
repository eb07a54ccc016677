"""Disks: the interface of the log, real files, memory, and disks that crash or fail on cue."""
