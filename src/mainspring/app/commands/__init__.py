"""What the command can do, one module for each noun. They return data and tell what happens; front ends show it."""
