# Estimates against golden.json, which the Python package makes (data-raw/make.py).
library(postrand)

folder <- system.file("extdata", package = "postrand")
golden <- jsonlite::read_json("golden.json", simplifyVector = TRUE)
near <- function(found, wanted) {
  stopifnot(length(coef(found)) == length(wanted$estimate))
  stopifnot(max(abs(coef(found) - wanted$estimate)) < 1e-10)
  stopifnot(max(abs(sqrt(diag(vcov(found))) - wanted$standard_error)) < 1e-10)
}
for (name in c("survey", "split")) {
  release <- read_release(file.path(folder, name))
  wanted <- golden[[name]]
  near(release_table(release, c("region", "sex")), wanted$table)
  near(release_table(release, if (name == "survey") c("job", "sex", "area") else c("job", "sex")), wanted$joint)
  near(release_mean(release, "pay", by = "sex"), wanted$mean)
  near(release_lm(pay ~ sex + area, release), wanted$linear)
  near(release_glm(if (name == "survey") ill ~ sex + pay else ill ~ sex, release), wanted$logistic)
}

# Unperturbed columns: lm, glm, and survey.
release <- read_release(file.path(folder, "survey"))
data <- release$data
fit <- lm(pay ~ area, data, weights = weight)
found <- release_lm(pay ~ area, release, weights = "weight", recorded = FALSE)
stopifnot(all.equal(unname(coef(found)), unname(coef(fit)), tolerance = 1e-12))
fit <- glm(ill ~ pay, binomial, data)
found <- release_glm(ill ~ pay, release, recorded = FALSE)
stopifnot(all.equal(unname(coef(found)), unname(coef(fit)), tolerance = 1e-7))
if (requireNamespace("survey", quietly = TRUE)) {
  design <- as_svydesign(release)
  wanted <- survey::svymean(~area, design)
  found <- release_table(release, "area")
  stopifnot(all.equal(unname(coef(found)), unname(coef(wanted)), tolerance = 1e-12))
  stopifnot(all.equal(unname(survey::SE(found)), unname(as.vector(survey::SE(wanted))), tolerance = 1e-12))
  wanted <- survey::svyby(~pay, ~area, subset(design, !is.na(pay)), survey::svymean)
  found <- release_mean(release, "pay", by = "area")
  stopifnot(all.equal(unname(sqrt(diag(vcov(found)))), unname(survey::SE(wanted)), tolerance = 1e-12))
}

# What is printed has intervals, and every warning.
shown <- capture.output(print(release_mean(release, "pay", by = "sex")))
stopifnot(any(grepl("lower", shown)), any(grepl("perturbation of sex, by a survey design", shown)))
interval <- confint(release_glm(ill ~ sex, release), level = 0.9)
stopifnot(identical(colnames(interval), c("5 %", "95 %")), all(interval[, 1] < interval[, 2]))

# Completed copies by Rubin's rules.
if (requireNamespace("mitools", quietly = TRUE)) {
  copies <- suppressWarnings(as_imputations(file.path(folder, "completed"), release))
  stopifnot(length(copies$imputations) == 5, is.factor(copies$imputations[[1]]$sex))
  fits <- lapply(copies$imputations, function(copy) lm(pay ~ sex, copy))
  pooled <- mitools::MIcombine(with(copies, lm(pay ~ sex)))
  estimates <- sapply(fits, coef)
  total <- rowMeans(sapply(fits, function(fit) diag(vcov(fit)))) + 1.2 * apply(estimates, 1, var)
  stopifnot(all.equal(diag(vcov(pooled)), total), all.equal(coef(pooled), rowMeans(estimates)))
  if (requireNamespace("survey", quietly = TRUE)) {
    means <- mitools::MIcombine(with(as_svydesign(copies), survey::svymean(~sex)))
    stopifnot(abs(sum(coef(means)) - 1) < 1e-12)
  }
}
