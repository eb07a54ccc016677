"""Random histories, and what the definitions say of them, worked out without any checker."""
