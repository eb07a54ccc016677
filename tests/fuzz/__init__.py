"""Fuzzed frames against a broker: `make fuzz` for a million, `make test` for a few thousand."""
