"""Brokers on asyncio: sockets, connections, clocks, directories, and messages between brokers."""
