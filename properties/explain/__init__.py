"""Everything that the repository knows of one property, put side by side: `highwater explain`."""
