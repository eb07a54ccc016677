"""Recorder of `highwater proxy`: what passes becomes a trace, client by client."""
