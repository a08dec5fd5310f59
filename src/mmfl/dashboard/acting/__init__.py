"""All of the dashboard that acts: it starts, stops and resumes runs, forecasts, and holds auctions.

The rest of the dashboard only reads run directories, and nothing of it imports this package, except
the application that puts its pages behind the token.
"""

from mmfl.dashboard.acting.pages import ActingPages
from mmfl.dashboard.acting.processes import Processes

__all__ = ["ActingPages", "Processes"]
