"""Real clients against brokers that are broken meanwhile: what both did, written down."""
