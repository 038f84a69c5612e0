"""The steps that connect the rooms: from a file to a plan, from a plan to a release and its dossier."""
