"""Front ends for programs: each a thin codec on the chat engine."""
