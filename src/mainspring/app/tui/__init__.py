"""The screen of the terminal: what the chat engine tells is drawn, what is typed becomes a command of it. No logic of an agent."""
