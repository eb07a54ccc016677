"""Log compaction: the choice of the next log to clean, and of the records to keep."""
