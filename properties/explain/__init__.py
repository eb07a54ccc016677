"""`highwater explain`: all that the repository knows of one property, side by side."""
