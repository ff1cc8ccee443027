"""What is seen: nodes and pods as the API server last showed them, and what that means to a gang."""
