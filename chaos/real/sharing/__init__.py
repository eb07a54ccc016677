"""Members of share groups, in Java and Python, beside brokers that are killed."""
