"""The partition log on disk, in Kafka's own file format.

The log uses the disk only through one small interface, `disk.interface.Disk`; only `disk.files`
knows the operating system. So the same log runs on files, in memory, and on a disk that crashes.
"""
