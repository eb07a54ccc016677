"""Readers: from recordings of any kind to the table of operations."""
