"""The verbs of the edge: `highwater broker`, and those that ask a cluster, any Kafka's."""
