"""Programs that start real processes and break them: brokers, clients, ZooKeeper, Apache Kafka.

Recordings are made with `traces` and judged by it; steps of brokers are judged by a `highwater
validate` of their own. All but `live` run from a checkout, by `make`.
"""
