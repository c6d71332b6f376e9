"""What layer steps load, as it comes, stays and is made ready for computing."""
