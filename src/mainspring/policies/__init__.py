"""Policies: plugs on the loop that decide, limit or shape. None knows another."""
