"""Power cuts: what a file system may keep of a run's writes, and whether the run resumes."""
