"""The client side of Kafka's protocol."""
