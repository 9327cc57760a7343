"""The routes of the Hub, a module for each part of its API; `every` lists them."""
