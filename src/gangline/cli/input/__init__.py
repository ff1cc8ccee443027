"""What commands read: shared options, job files, names of replicas."""
