"""The control room: watch and steer a running sale in a browser.

Two processes take part. A web process serves the page, to staff only (`views`). One small process
of its own (`python -m lab.room`) reads the servers for all viewers and streams what it finds
(`server`), so that a viewer costs the sale nothing and the picture continues while web processes,
Redis or PostgreSQL are away.
"""
