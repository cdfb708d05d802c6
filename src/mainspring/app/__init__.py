"""Front ends: each converts input of users or programs into commands, and events into output."""
