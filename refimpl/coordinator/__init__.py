"""The runtime of coordinators: state that is a replay of a log, and answers that wait for it.

Groups and offsets are one shard of it; each shard says how its records are replayed and how its
requests are decided.
"""
