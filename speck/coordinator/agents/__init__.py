"""The agents of sites at the coordinator: who may connect, and who is connected."""

from __future__ import annotations

from speck.coordinator.agents.enrolment import Enrolment, Invitation, ListedTokens, NoTokens, with_joined
from speck.coordinator.agents.presence import Agents
from speck.coordinator.agents.upgrades import Upgrades

__all__ = ["Agents", "Enrolment", "Invitation", "ListedTokens", "NoTokens", "Upgrades", "with_joined"]
