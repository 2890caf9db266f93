"""Doors and technologies: the only impure hall. Files are called role_technology."""
