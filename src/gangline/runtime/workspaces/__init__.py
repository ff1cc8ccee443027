"""The programs of workspaces. They run as text in the user's own Python, so each is one file that imports no other."""
