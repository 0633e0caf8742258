"""Processes, devices and environment of a run; shared by training, adaptation and distillation."""
