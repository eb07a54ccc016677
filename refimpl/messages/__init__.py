"""What brokers, controllers, clients and operators say to each other, under Kafka's names.

Requests, responses, timers, the metadata of a cluster, and what a node reports of its own steps.
"""
