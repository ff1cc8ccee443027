"""Who stops, or shrinks, so that another gang fits; and the place that is reserved meanwhile."""
