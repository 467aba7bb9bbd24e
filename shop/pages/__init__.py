"""The pages that buyers see. Each view parses, calls one service, and renders."""
