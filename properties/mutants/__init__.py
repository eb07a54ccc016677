"""Mutants: bugs put into machines and specs on purpose, and the checks that find them."""
