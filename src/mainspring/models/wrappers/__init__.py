"""Model providers that wrap another one."""
