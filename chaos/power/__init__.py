"""Power cuts: what a file system may leave of a run's writes, and whether it resumes from that."""
