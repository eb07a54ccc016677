"""Apache Kafka as processes: its jars by Maven, its tools, one broker, three brokers."""
