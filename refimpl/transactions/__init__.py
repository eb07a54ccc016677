"""Transactional ids and their transactions, on the runtime of coordinators.

The rules of one id are `refimpl.machines.transaction_coordinator`; a shard holds the ids of one
partition of `__transaction_state`.
"""
