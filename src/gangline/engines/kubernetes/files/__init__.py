"""Files of jobs and models that somebody copies by hand: reached in pods, with that person's own rights."""
