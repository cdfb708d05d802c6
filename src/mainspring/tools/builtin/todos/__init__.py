"""A list of things to do, kept for a session."""

from mainspring.tools.builtin.todos.store import TODOS, EnvTodos, Todo, TodoStore
from mainspring.tools.builtin.todos.tools import todo_read, todo_write

__all__ = ["TODOS", "EnvTodos", "Todo", "TodoStore", "todo_read", "todo_write"]
