"""Adapters for LangChain chat models and messages (extra ``langchain``). Importing this does not import LangChain."""

from mainspring.models.langchain.messages import from_langchain, to_langchain
from mainspring.models.langchain.model import LangChainModel

__all__ = ["LangChainModel", "from_langchain", "to_langchain"]
