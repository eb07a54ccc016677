"""Group coordinators: the state of groups and their offsets, which is a replay of their log."""
