"""Messages between brokers, controllers, clients and operators, under Kafka's names.

Requests, responses, timers, the metadata of a cluster, and a node's observations of its own steps.
"""
