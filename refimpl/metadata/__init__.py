"""Metadata stores: ZooKeeper's contract, a store of our own behind it, and ZooKeeper itself.

`contract` and `errors` say what a store promises. `embedded` and `client` are the two ends of our
own store, as machines without I/O.
"""
