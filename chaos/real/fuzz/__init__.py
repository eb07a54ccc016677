"""`make fuzz`: a million fuzzed frames against a broker; `make test` sends a few thousand."""
