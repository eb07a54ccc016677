"""Kafka's protocol as bytes: frames, headers, messages by kio, and two codecs of our own.

Nothing here knows a broker, a socket or a clock.
"""
