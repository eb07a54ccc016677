"""The commands `highwater check` and `highwater ingest`."""
