"""What replicas write: read while their pods live, saved when they go, searched for metrics."""
