"""Following a job or a sweep, live on a terminal or line by line."""
