"""`make test-suites`: other clients' own test suites, on our broker and on Apache Kafka."""
