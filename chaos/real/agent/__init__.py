"""The Java agent that writes down the steps of Kafka's replication: its sources and its build."""
