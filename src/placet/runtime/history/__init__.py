"""What is read out of a log: the world as it was, its checks, its explanations."""
