"""`highwater dump-log`: Kafka's log files, indexes and snapshots as DumpLogSegments prints them."""
