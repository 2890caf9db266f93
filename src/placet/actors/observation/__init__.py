"""Views and observations: a read replica, interest management, and one observer for each agent."""
