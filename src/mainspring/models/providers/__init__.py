"""Providers that need code of their own: a function ``build(config)`` each. The profiles of all are in `models.provider_table`."""
