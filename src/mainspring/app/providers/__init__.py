"""Model providers from the settings: choose, set up, check, and log in."""
