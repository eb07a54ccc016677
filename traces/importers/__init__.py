"""Importers: other people's recordings as runs in trace format v1."""
