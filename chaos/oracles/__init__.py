"""The oracles: promises, each judged at the steps that could break it."""
