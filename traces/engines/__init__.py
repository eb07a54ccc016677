"""Engines: how rows come to the checks, in this process or in Spark, whole or cut into blocks."""
