#!/bin/sh
# A survey, from the file of the field department to a release, its check and its first tables.
#   sh survey.sh          needs: pip install postrand
set -eu
postrand demo --sample survey.csv

# What is in the file? init finds out how it is read, and names columns that say again what others say.
postrand init survey.csv --keys region,female,black,educ,workstat,babies --sensitive happy,income,attend \
  --record-key person --drop vhappy,regattend,reg16,prestige,tvhours --out look

# How identifiable are the records now? 835 of 2,986 persons are alone with their keys.
postrand assess survey.csv --codebook look/codebook.toml --keys region,female,black,educ,workstat,babies

# Two to four complete plans, with their claims, risk before and after, and the worth of tables.
postrand advise survey.csv --codebook look/codebook.toml --limit "epsilon <= 6" --out advice

# One of them in sentences, then the release. The dossier is for the office alone.
postrand explain advice/plan-1.toml
postrand protect --plan advice/plan-1.toml --out release --dossier internal

# What everybody can do who has the release, and nothing else.
postrand verify release
postrand estimate release --table female
