"""`highwater faults`: brokers in this process, clients by TCP, faults, and a record of it all."""
