"""Clusters in this process for tests: `Cluster` with an event loop, `BlockingCluster` without."""
