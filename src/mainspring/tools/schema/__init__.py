"""JSON Schema of Python types and functions."""
