"""What a world says of itself to operators: numbers and lines."""
