"""LangChain chat models as models of ours, and its messages as ours (extra ``langchain``). Importing this imports none of it."""

from mainspring.models.langchain.messages import from_langchain, to_langchain
from mainspring.models.langchain.model import LangChainModel

__all__ = ["LangChainModel", "from_langchain", "to_langchain"]
