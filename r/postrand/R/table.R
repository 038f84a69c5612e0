MAX_NUMBERS <- 2^26
MAX_COVARIANCE <- 1024
NONE <- FALSE # of a share: postrand estimate inverts a test, with a survey design too

release_table <- function(release, variables, weights = NULL, strata = NULL, psu = NULL, recorded = TRUE) {
  sampling <- sampling_of(release, weights, strata, psu, recorded)
  axes <- axes_of(release, variables)
  operators <- lapply(axes, operator_of, must_be_exact = TRUE)
  records <- gathered(release, axes, sampling)
  cases <- cases_of(records)
  size <- prod(vapply(operators, ncol, 1))
  require_room(length(cases$count) * size)
  shown <- combinations(axes, variables)
  added <- contributed(operators, cases, shown)
  total <- sum(cases$count * cases$weight)
  if (total == 0) refuse("every record without a missing value has weight 0", "use other weights or fewer variables")
  value <- colSums(cases$count * cases$weight * added) / total
  centred <- added - rep(value, each = nrow(added))
  exact <- records$split && !sampling$weighted && sampling$kind == "records" && is_one(sampling$stratum)
  z <- if (exact && !(release$members && any(variables %in% release$partly))) {
    exact_deviations(centred, cases, total)
  } else {
    deviations(cases$weight / total * centred, cases, sampling)
  }
  estimate_of(release, labels_at(release, shown$codes, variables), value, z, records, sampling, variables,
              what = paste("Shares of", paste(variables, collapse = " by ")), interval = NONE)
}

is_one <- function(stratum) length(unique(stratum)) == 1

require_room <- function(numbers) {
  if (numbers > MAX_NUMBERS) {
    refuse("too many records and cells for this package", "use fewer variables, or 'postrand estimate'")
  }
}

# Terms with one mean and unequal weights a that sum to 1: the variance of sum(a c) is estimated without bias by
# sum(t (c - mean)^2) / (1 + sum(t)), t = a^2 / (1 - 2 a).
exact_deviations <- function(centred, cases, total) {
  a <- cases$weight / total
  if (max(a) >= 0.5) refuse("too few records show every variable of the table", "use fewer variables")
  terms <- a^2 / (1 - 2 * a)
  sqrt(cases$count * terms / (1 + sum(cases$count * terms))) * centred
}

# What every function returns; z are deviations, the covariance is crossprod(z). `response`: who has no answer of it is
# left out.
estimate_of <- function(release, labels, value, z, records, sampling, variables, what, interval,
                        unclear = rep(FALSE, length(value)), notes = character(), more = list(),
                        response = character()) {
  variance <- colSums(z^2)
  covariance <- if (length(value) <= MAX_COVARIANCE) crossprod(z) else NULL
  if (any(unclear)) {
    variance[unclear] <- Inf
    if (!is.null(covariance)) {
      covariance[unclear, ] <- NA
      covariance[, unclear] <- NA
      diag(covariance)[unclear] <- Inf
    }
  }
  names <- if (length(labels)) do.call(paste, c(unname(lapply(labels, as.character)), sep = ":")) else what
  if (!is.null(covariance)) dimnames(covariance) <- list(names, names)
  table <- data.frame(estimate = value, standard_error = sqrt(variance), row.names = NULL)
  if (length(labels)) table <- cbind(labels, table)
  warnings <- c(notes, shared_warnings(release, variables, sampling))
  structure(c(list(
    table = table, names = names, covariance = covariance, what = what, records = length(records$kept),
    dropped = records$dropped, used = unique(c(response, variables, records$names)), split = records$split,
    unanswered = if (!all(response %in% release$perturbed) && length(absent_of(release, response))) response,
    perturbed = intersect(release$perturbed, variables), interval = interval,
    freedom = sampling$freedom, warnings = warnings
  ), more), class = "postrand_estimate")
}

# How many records count, of how many, and why others are left out: a variable is missing or no answer.
counted <- function(x) {
  shown <- function(n) format(n, big.mark = ",")
  if (!x$dropped) return(paste(shown(x$records), "records"))
  why <- paste(either(x$used), "is missing")
  if (length(x$unanswered)) {
    alone <- identical(x$used, x$unanswered)
    why <- paste0(why, if (alone) " or no answer" else paste0(", or ", either(x$unanswered), " is no answer"))
  }
  all <- paste(shown(x$records), "of", shown(x$records + x$dropped), "records")
  paste0(all, ", ", shown(x$dropped), " left out (", why, ")")
}

either <- function(names) {
  paste(c(toString(utils::head(names, -1))[length(names) > 1], utils::tail(names, 1)), collapse = " or ")
}

coef.postrand_estimate <- function(object, ...) stats::setNames(object$table$estimate, object$names)

vcov.postrand_estimate <- function(object, ...) {
  if (is.null(object$covariance)) {
    refuse("the table is too large for a covariance matrix", "use the standard errors, or fewer variables")
  }
  object$covariance
}

TOO_LITTLE <- "plus or minus two standard errors covers too little"
BY_COMMAND <- "use 'postrand estimate release --table ...'"

confint.postrand_estimate <- function(object, parm = object$names, level = 0.95, ...) {
  if (!is.numeric(level) || length(level) != 1 || is.na(level) || level <= 0 || level >= 1) {
    refuse("the level is not between 0 and 1", "use for example level = 0.95")
  }
  if (isFALSE(object$interval)) {
    refuse(paste0("this package has no intervals for shares: ", TOO_LITTLE), paste0(BY_COMMAND, ", which inverts a test"))
  }
  if (is.null(object$interval)) {
    half <- stats::qt((1 + level) / 2, object$freedom) * object$table$standard_error
    ends <- cbind(object$table$estimate - half, object$table$estimate + half)
  } else {
    ends <- object$interval(level)
  }
  tails <- c((1 - level) / 2, (1 + level) / 2)
  dimnames(ends) <- list(object$names, paste(format(100 * tails, trim = TRUE, digits = 3), "%"))
  ends[if (is.character(parm)) match(parm, object$names) else parm, , drop = FALSE]
}

print.postrand_estimate <- function(x, digits = 4, ...) {
  shown <- x$table
  numbers <- vapply(shown, is.numeric, TRUE)
  if (!isFALSE(x$interval)) {
    ends <- stats::confint(x)
    shown$lower <- ends[, 1]
    shown$upper <- ends[, 2]
  }
  print(shown, digits = digits, row.names = FALSE)
  noise <- if (length(x$perturbed)) paste(" and the perturbation of", paste(x$perturbed, collapse = ", "))
  cat(x$what, if (x$split) ", from the records that show every variable", "; ", counted(x), sep = "")
  cat("; standard errors include sampling", noise, sep = "")
  if (!is.null(x$freedom)) cat(", by a survey design with", x$freedom, "degrees of freedom")
  cat(".\n")
  if (length(x$modelled)) cat("Modelled: ", x$modelled, ".\n", sep = "")
  if (isFALSE(x$interval)) cat("Of rare cells, ", TOO_LITTLE, ": for intervals ", BY_COMMAND, ".\n", sep = "")
  for (text in x$warnings) cat("Warning: ", text, "\n", sep = "")
  invisible(x)
}
