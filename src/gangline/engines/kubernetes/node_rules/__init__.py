"""Where pods may go: what nodes have, and what affinity, taints and volumes leave of them."""
