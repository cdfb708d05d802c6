"""Adapters for LangChain chat models and messages (extra ``langchain``). Importing this does not import LangChain."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.models.langchain.messages import from_langchain as from_langchain, to_langchain as to_langchain
    from mainspring.models.langchain.model import LangChainModel as LangChainModel

# Every run loads `detect`, but few runs use a LangChain model.
lazy_exports(__name__, {"messages": "from_langchain to_langchain", "model": "LangChainModel"})
