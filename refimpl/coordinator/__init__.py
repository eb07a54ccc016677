"""The runtime of coordinators: state that is a replay of a log, and answers that wait for commits.

Groups and offsets are one shard of it. A shard replays its own records and decides its own
requests.
"""
