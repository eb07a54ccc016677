"""Conformance: each machine compared with its spec, in all states of a model or on walks."""
