"""The Java agent that writes down the steps of Kafka: its sources and its build."""
