"""Providers: each module has a profile (protocol, host, key, capabilities) and a function ``build(config)``."""
