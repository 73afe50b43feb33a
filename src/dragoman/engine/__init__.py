"""Plans: how a request is tried, retried, failed over and checked. Pure generators; `dragoman.io` runs them."""
