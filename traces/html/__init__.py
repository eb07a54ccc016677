"""The report as one page: verdicts, witnesses and plots, and nothing to be fetched."""
