"""Runs as a service: tenants, starts and answers, events in two formats. Front ends of servers stand on this."""
