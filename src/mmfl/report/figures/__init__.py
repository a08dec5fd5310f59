"""The figures."""

from mmfl.report.figures.auctions import draw_auctions, save_auctions
from mmfl.report.figures.bounds import BoundPanel, draw_bounds, save_bounds
from mmfl.report.figures.budgets import BudgetPanel, draw_budgets, save_budgets
from mmfl.report.figures.comparison import draw_comparison, save_comparison
from mmfl.report.figures.panels import (
    AgainstPanel,
    BarPanel,
    LinePanel,
    MapPanel,
    SmallPanel,
    draw_panels,
)
from mmfl.report.figures.plans import draw_plan, save_plan
from mmfl.report.figures.points import Point, draw_points
from mmfl.report.figures.saving import check_path, render, save
from mmfl.report.figures.supply import draw_supply, save_supply
from mmfl.report.figures.theorems import draw_theorems, save_theorems

__all__ = [
    "AgainstPanel",
    "BarPanel",
    "BoundPanel",
    "BudgetPanel",
    "LinePanel",
    "MapPanel",
    "Point",
    "SmallPanel",
    "check_path",
    "draw_auctions",
    "draw_bounds",
    "draw_budgets",
    "draw_comparison",
    "draw_panels",
    "draw_plan",
    "draw_points",
    "draw_supply",
    "draw_theorems",
    "render",
    "save",
    "save_auctions",
    "save_bounds",
    "save_budgets",
    "save_comparison",
    "save_plan",
    "save_supply",
    "save_theorems",
]
