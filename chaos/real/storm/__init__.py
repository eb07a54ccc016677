"""`make test-storm`: eight members of three client libraries that rebalance under faults."""
