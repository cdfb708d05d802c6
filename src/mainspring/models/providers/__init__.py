"""Providers that need code: each has a function ``build(config)``. The profiles of all are in `models.provider_table`."""
