"""Commands of `appliance` beside `up`, `down` and `status`: one module each."""
