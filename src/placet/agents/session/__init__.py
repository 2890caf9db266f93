"""A conversation of a person with an agent about one world."""
