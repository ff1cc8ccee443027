"""What travels with a job: a directory or a function, and the environment that it was written in."""
