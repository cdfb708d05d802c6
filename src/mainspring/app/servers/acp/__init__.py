"""The Agent Client Protocol: editors as a front end."""
