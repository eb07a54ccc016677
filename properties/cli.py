"""The verbs that this room brings to `highwater`."""

from properties.tla.commands import spec

__all__ = ["spec"]
