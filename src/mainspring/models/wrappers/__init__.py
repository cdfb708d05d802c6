"""Model providers that wrap another provider."""
