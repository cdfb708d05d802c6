"""A container in which tools work, through the command line of docker or podman."""

from mainspring.env.container.container import ENGINES, find_engine
from mainspring.env.container.env import ContainerEnv

__all__ = ["ContainerEnv", "ENGINES", "find_engine"]
