"""Inductive invariants: TLA+ as SANY parsed it, evaluated over z3 terms, and proved step by step.

There is no second encoding of a spec.

- `sany` reads the syntax tree.
- `evaluate` and `actions` walk it over values that may hold z3 terms (`terms`, `values`).
- `shapes` are the ranges of the state variables.
- `induct` asks z3 one question for each step.

`highwater prove` runs the table `proofs.toml` beside a module.
"""
