"""What the built-in tools share."""
