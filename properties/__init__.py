"""The evidence for the machines: TLC and its verdicts, conformance, mutants, inductive proofs."""
