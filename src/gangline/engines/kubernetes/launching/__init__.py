"""What is sent: a gang's objects and files, created and removed again. Every write may be repeated."""
