"""Simple tasks over a folder of files, for the embedded models."""
