"""Export models to a form that runs without torch (:mod:`cascade_srn.runtime`)."""
