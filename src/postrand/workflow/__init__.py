"""From a plan to a release, a file to a plan, a release to a dossier: the steps that join the rooms."""
