"""Raw text and records of users: finding, opening and reading them."""
