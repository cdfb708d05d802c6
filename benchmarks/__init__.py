"""Measurements beside a hand-written loop: `python -m benchmarks`."""
