"""What ``gangline install`` puts into a cluster and takes away again."""
