"""From encoded sentences to entities and relations."""
