"""The views of the dashboard, one module each: which parts they have, and what their pages say around them."""
