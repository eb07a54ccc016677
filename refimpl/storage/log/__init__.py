"""One partition's log: segments, appends, producer state, recovery; and a directory of logs."""
