"""Providers: each is a profile (protocol, host, key, what it accepts) and a function ``build(config)``."""
