"""Transactional clients as processes of their own, which runs with real brokers kill and pause."""
