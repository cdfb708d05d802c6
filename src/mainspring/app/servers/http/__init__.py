"""Runs over HTTP: start, follow, steer, approve, fork; for many tenants."""
