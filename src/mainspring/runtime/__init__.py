"""The composition root: options become plugs, settings and commands become runs."""
