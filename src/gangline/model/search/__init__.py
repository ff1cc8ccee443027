"""What a sweep varies, and when it stops a trial."""
