"""Reproduce the tables of the paper: train the models, measure them, and compare with the published figures."""
