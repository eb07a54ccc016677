"""The partition log on disk, in Kafka's own file format.

Everything here reaches the world through one small interface, `disk.interface.Disk`; only
`disk.files` knows that there is an operating system. So the same log runs on files, in memory, and
on a disk that crashes.
"""
