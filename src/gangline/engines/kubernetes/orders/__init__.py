"""What the controller ordered, carried out, and what it has to hear, in the right order."""
