"""Model providers as the settings describe them: choose, set up, check, and log in."""
