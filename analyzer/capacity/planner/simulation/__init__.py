"""What a plan comes to when its tasks take as long as they do: its nodes and order are kept, its durations drawn."""

from analyzer.capacity.planner.simulation.outlook import Outlook
from analyzer.capacity.planner.simulation.simulate import links_cost_seconds, simulate

__all__ = ["Outlook", "links_cost_seconds", "simulate"]
