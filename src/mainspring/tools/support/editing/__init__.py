"""Edit files: match, patch, preview, and review."""
