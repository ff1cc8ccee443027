"""What a user submits, and what is known of its life: the job, its gang, its phases, its numbers."""
