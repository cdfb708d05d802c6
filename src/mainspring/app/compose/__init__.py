"""Settings and options become an agent with its plugins."""
