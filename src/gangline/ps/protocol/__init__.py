"""What workers and servers say to each other, and the connection it travels on."""
