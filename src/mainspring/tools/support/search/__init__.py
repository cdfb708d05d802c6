"""Search files: patterns, listings, and the engines of grep."""
