"""What MPI gangs need besides their pods: hostfiles, keys, names and a remote shell."""
