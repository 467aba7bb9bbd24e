"""Lock backends, one module each; import the one you use."""
