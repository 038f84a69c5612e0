#!/bin/sh
# Completed files of a release, for analyses in any software.
#   sh completed.sh && Rscript completed.R          needs: pip install postrand; R for the second
set -eu
postrand demo --sample survey.csv
postrand init survey.csv --keys female,black,happy --other tvhours --drop '*' --perturb blocks --out work
postrand protect --plan work/plan.toml --out release
# Five copies make the example quick: take 20. Exit code 10: a test of the model failed, and is named.
postrand complete release --copies 5 --seed 1 --out completed || [ $? -eq 10 ]
