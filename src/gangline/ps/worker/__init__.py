"""The worker's side: a session over all servers of a job."""
