"""What others do to the objects: watched, told to the controller, recorded as events."""
