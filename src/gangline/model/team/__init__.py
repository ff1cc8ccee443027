"""Who may do what, who did what, and who used what."""
