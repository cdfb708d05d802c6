"""What the command reads in the project and user folders: settings, trust, instructions, custom commands, sessions."""
