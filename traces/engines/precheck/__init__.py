"""Verdicts from sums and summaries: what a trace of any size says without being shuffled.

Two pre-checks look at each row once and where it lies. The *fingerprint* adds up a hash of every
(record, offset) pair, window by window, on each side of an equation: what was acknowledged, what
the final scan holds, what a group was given, what it processed. The *order* folds what each process
did, in its own order, into a few numbers that can be put together again across pieces of a file.
What neither can vouch for is named, and goes to the exact checks.
"""
