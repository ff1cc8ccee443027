"""The server: connections in, requests carried out on its blocks, snapshots to disk."""
