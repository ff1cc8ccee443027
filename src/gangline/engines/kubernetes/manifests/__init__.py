"""What is built: gangs, replicas and what they bring along, as Kubernetes objects. Pure; sends nothing."""
