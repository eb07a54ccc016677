"""Verdicts, and the ways in which they are shown: incidents, tables, JUnit, a second opinion."""
