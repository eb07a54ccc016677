"""Log compaction: which log is cleaned next, and which records a cleaned log keeps."""
