"""Read and change what the user and project folders contain: settings, trust, instructions, custom commands, and sessions."""
