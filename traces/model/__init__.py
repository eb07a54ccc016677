"""The model of traces: one row for each record of each call, and the configuration of a run."""
