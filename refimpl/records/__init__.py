"""Kafka's message schemas as classes, and the records that group coordinators write with them."""
