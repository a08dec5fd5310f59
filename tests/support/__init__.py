"""What tests share: builders of experiments, runs, markets and figures."""
