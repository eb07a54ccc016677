"""A proxy for any client and any broker: `highwater proxy`."""
