"""What the controller still has to do: instructions, timers, and what the store has not taken yet."""
