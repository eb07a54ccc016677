"""Judge a trace of any size from sums and summaries, without a shuffle.

Two pre-checks read each row once, in place. The *fingerprint* adds up a hash of every (record,
offset) pair, window by window, on each side of an equation: records acknowledged, in the final
scan, given to a group, processed by it. The *order* folds each process's calls, in its own order,
into a few numbers that can be put together again across pieces of a file. Partitions that neither
can clear are named, and go to the exact checks.
"""
