"""A mix of buyers at any shop that has an adapter: Locust's users, each at their own pace.

In a closed loop each user plays one buyer after the other; in an open loop buyers arrive at times
of their own. What a buyer does besides buying follows from the levels that the adapter offers
(`behaviours.py`), and the run is judged as a rush is: by every answer and the shop's own books.
"""
