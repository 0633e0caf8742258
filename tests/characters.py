"""A strategy for any character."""

from hypothesis import strategies as st

# What st.characters(codec="utf-8") is, and the default of st.text(), but without encoding each of a million characters.
ANY_CHARACTER = st.characters(exclude_categories=["Cs"])
