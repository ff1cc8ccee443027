"""Where the replicas of one gang go, given what is free."""
