"""Front ends: each turns what a person or program says into commands of the runtime, and events into what they see."""
