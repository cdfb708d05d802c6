"""Talking to the user in the middle of a run."""

from mainspring.tools.builtin.talk.ask_user import ask_user
from mainspring.tools.builtin.talk.present_plan import present_plan
from mainspring.tools.builtin.talk.seam import INTERACTION, Interaction, Option, Plan, Question, Reply, Review

__all__ = [
    "INTERACTION",
    "Interaction",
    "Option",
    "Plan",
    "Question",
    "Reply",
    "Review",
    "ask_user",
    "present_plan",
]
