"""The share coordinator (KIP-932): the stored state of share partitions, as a shard."""
