"""Local training with torch: kernels, the resident network, and the trainer that workers run."""
