"""Kafka's file formats: record batches, indexes, checkpoints."""
