"""The paper's experiments as data, with what it claims, and whether that holds here."""

from mmfl.reproduce.study import Scale, Setting, Study, find_studies, load_scales, load_study

__all__ = ["Scale", "Setting", "Study", "find_studies", "load_scales", "load_study"]
