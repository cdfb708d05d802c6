"""Runs as a service, the base of servers: tenants, starts, approvals, and events in two formats."""
