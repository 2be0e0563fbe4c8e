"""Workers that come and go, over REST."""
