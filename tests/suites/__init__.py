"""Other clients' own test suites against our broker and against real Kafka."""
