"""The control plane without I/O: topics, brokers, leaders, ISRs, configurations and quotas.

`Controller` decides in memory; `StoredController` is elected by a metadata store and keeps its
decisions there.
"""
