# Objects of the packages mitools and survey.

need <- function(package) {
  if (!requireNamespace(package, quietly = TRUE)) {
    refuse(paste("this needs the R package", package), paste0("install.packages(\"", package, "\")"))
  }
}

as_svydesign <- function(x, ...) UseMethod("as_svydesign")

as_svydesign.postrand_release <- function(x, weights = NULL, strata = NULL, psu = NULL, recorded = TRUE, ...) {
  true <- setdiff(names(x$data), c(x$perturbed, names(x$ranked)))
  if (!length(true)) {
    refuse("every column of the release is perturbed, and survey would take its values for true ones",
           "use release_table(), release_mean() or release_lm(), or the designs of as_imputations()")
  }
  designed(x$data[true], x$survey, true, weights, strata, psu, recorded)
}

as_svydesign.imputationList <- function(x, weights = NULL, strata = NULL, psu = NULL, recorded = TRUE, ...) {
  true <- setdiff(names(x$imputations[[1]]), attr(x, "perturbed"))
  designed(x, attr(x, "survey"), true, weights, strata, psu, recorded)
}

# A design by columns that are released as they are; `true` names them.
designed <- function(data, survey, true, weights, strata, psu, recorded) {
  need("survey")
  if (!recorded || !is.null(psu)) survey <- NULL
  if (length(survey[["calibrated"]])) {
    refuse("the release records calibrated weights, and survey calibrates by population totals itself",
           "make a design with recorded = FALSE, and give survey::calibrate() or survey::postStratify() the totals")
  }
  part <- list(weights = weights %or% survey[["weights"]], strata = strata %or% survey[["strata"]],
               psu = psu %or% survey[["psu"]], fpc = survey[["fpc"]])
  replicates <- as.character(unlist(survey[["replicates"]]))
  absent <- setdiff(c(unlist(part), replicates), true)
  if (length(absent)) {
    refuse(paste0("not a column that is released as it is: ", quoted(absent)), "use another column, or none")
  }
  formula <- function(name) if (is.null(name)) NULL else stats::reformulate(sprintf("`%s`", name))
  if (length(replicates)) return(replicated(data, survey, replicates, formula(part$weights)))
  survey::svydesign(ids = if (is.null(part$psu)) ~1 else formula(part$psu), strata = formula(part$strata),
                    weights = if (is.null(part$weights)) ~1 else formula(part$weights), fpc = formula(part$fpc),
                    data = data, nest = TRUE)
}

replicated <- function(data, survey, names, weights) {
  types <- c(brr = "BRR", fay = "Fay", jk1 = "JK1", jkn = "JKn", bootstrap = "bootstrap", other = "other")
  asked <- list(data = data, weights = weights, repweights = stats::reformulate(sprintf("`%s`", names)),
                type = types[[survey[["method"]]]], combined.weights = TRUE, mse = isTRUE(survey[["mse"]]))
  asked$rho <- survey[["rho"]]
  asked$scale <- survey[["scale"]]
  asked$rscales <- if (length(survey[["rscales"]])) as.numeric(unlist(survey[["rscales"]]))
  do.call(survey::svrepdesign, asked)
}

as_imputations <- function(dir, release = NULL, data = NULL) {
  need("mitools")
  told <- read_part(dir, "completed")
  path <- file.path(dir, told[["file"]])
  size <- told[["files"]][[told[["file"]]]]
  if (!file.exists(path) || !identical(digest::digest(path, "sha256", file = TRUE), as.character(size$sha256))) {
    refuse("the stacked file is not the one that completed.json describes", "make the completed files again", path)
  }
  if (is.null(release) && file.exists(file.path(dir, "manifest.json"))) release <- read_release(dir)
  if (!is.null(release)) require_same(release, told)
  if (is.null(data)) {
    if (!grepl("[.]csv$", told[["file"]])) {
      refuse(paste0("this package reads CSV only, and the copies are in ", quoted(told[["file"]])),
             "make them with --format csv, or read the file with another package and give it as data =", dir)
    }
    data <- read_csv(path)
  }
  stacked <- typed_copies(as.data.frame(data, optional = TRUE), release)
  copies <- split(stacked, stacked$Imputation_)
  copies <- copies[names(copies) != "0"]
  if (length(copies) != told[["copies"]] || any(vapply(copies, nrow, 1L) != told[["records"]])) {
    refuse("the stacked file does not have the copies and records that completed.json states", "make the files again",
           path)
  }
  for (text in c(unlist(told[["problems"]]), unlist(told[["warnings"]]))) warning(text, call. = FALSE)
  found <- mitools::imputationList(unname(copies))
  attr(found, "perturbed") <- as.character(unlist(told[["perturbed"]]))
  attr(found, "survey") <- release$survey
  found
}

require_same <- function(release, told) {
  named <- told[["released"]]$data
  same <- vapply(names(named), function(name) identical(release$manifest$files[[name]]$sha256, named[[name]]), TRUE)
  if (!all(same)) {
    refuse("the copies were made from another release", "give the release that they were made from, or none",
           release$path)
  }
}

# Columns by the codebook of a release; without one, texts are categories, and what looks like numbers are numbers.
typed_copies <- function(stacked, release) {
  for (name in names(stacked)) {
    v <- release$variables[[name]]
    given <- stacked[[name]]
    if (is.factor(given)) given <- as.character(given)
    if (is.character(given)) given[!nzchar(given)] <- NA
    stacked[[name]] <- if (is.null(v)) {
      if (is.character(given)) utils::type.convert(given, as.is = FALSE, na.strings = character()) else given
    } else if (v$size) {
      v$missing <- if (v$missing == "error") "keep" else v$missing
      copy_values(given, stacked$Imputation_, v)
    } else typed(given, v)
  }
  stacked
}

# Copy 0 has no value of a perturbed variable, whatever missing values are in the others.
copy_values <- function(given, copy, v) {
  found <- values_of(codes_of(given, v, FALSE), v)
  found[copy == 0] <- NA
  found
}
