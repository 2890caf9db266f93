"""The scenarios that come with placet, and the policies of their agents."""
