"""Why the machines are right: TLC and its verdicts, conformance to the spec, mutants, laws."""
