"""Large tool results: stored on disk, with a preview in the conversation."""
