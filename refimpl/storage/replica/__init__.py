"""The two logs of a replica, by `machines.replica_log`: Kafka's files, and batches in memory."""
