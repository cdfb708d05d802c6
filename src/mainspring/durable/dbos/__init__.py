"""Durable runs on DBOS."""
