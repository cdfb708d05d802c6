"""Policies: plugins on the loop that decide, limit, or shape.

They do not depend on each other.
"""
