"""Metadata stores: ZooKeeper's contract, a store of our own that keeps it, and ZooKeeper itself.

`contract` and `errors` define a store's promises. `embedded` and `client` are the two ends of our
own store, as machines without I/O.
"""
