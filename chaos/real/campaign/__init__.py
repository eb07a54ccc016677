"""Campaigns of faults on real broker processes: `highwater chaos real`."""
