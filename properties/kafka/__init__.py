"""`highwater validate --kafka`: runs of Apache Kafka itself, judged by the specs."""
