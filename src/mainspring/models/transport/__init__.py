"""HTTP transports."""
