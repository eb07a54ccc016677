"""The commands `highwater broker` and `highwater groups`."""
