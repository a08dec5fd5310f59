"""Experiments: a folder for each question, with its configuration and its results."""
