"""`make test-faults`: processes of `highwater broker` on ZooKeeper, observed and broken."""
