release_lm <- function(formula, release, weights = NULL, strata = NULL, psu = NULL, recorded = TRUE) {
  regression_of(formula, release, "gaussian", weights, strata, psu, recorded)
}

release_glm <- function(formula, release, family = stats::binomial(), weights = NULL, strata = NULL, psu = NULL,
                        recorded = TRUE) {
  if (is.function(family)) family <- family()
  usual <- c(gaussian = "identity", binomial = "logit", poisson = "log")
  if (is.character(family)) family <- list(family = family, link = usual[family])
  if (!isTRUE(usual[family$family] == family$link)) {
    refuse(paste("unknown family", family$family, "with link", family$link),
           "use gaussian(), binomial() or poisson() with their usual links; 'postrand estimate' also has multinomial")
  }
  regression_of(formula, release, family$family, weights, strata, psu, recorded)
}

# The family's mean and its derivative at linear predictors.
MOMENTS <- list(
  gaussian = function(eta) list(mean = eta, curve = rep(1, length(eta))),
  binomial = function(eta) { p <- stats::plogis(eta); list(mean = p, curve = p * (1 - p)) },
  poisson = function(eta) { mean <- exp(pmin(eta, 300)); list(mean = mean, curve = mean) }
)

regression_of <- function(formula, release, family, weights, strata, psu, recorded) {
  sampling <- sampling_of(release, weights, strata, psu, recorded)
  asked <- variables_of(formula, release)
  hidden <- intersect(asked, release$perturbed)
  axes <- if (length(hidden)) axes_of(release, hidden) else list()
  names_on <- unique(unlist(lapply(axes, function(axis) axis$names)))
  clear <- setdiff(asked, names_on)
  present <- !Reduce(`|`, lapply(clear, function(name) {
    is.na(release$codes[[name]] %or% release$data[[name]])
  }), rep(FALSE, release$records))
  response <- asked[1]
  own <- if (!response %in% names_on) response_at(release, response, family)
  if (!is.null(own)) present <- present & !is.na(own)
  covariates <- setdiff(clear, response)
  read <- function(release) {
    for (name in intersect(covariates, names(release$absent))) {
      present <- present & !release$codes[[name]] %in% release$absent[[name]]
    }
    records <- gathered(release, axes, sampling, present)
    factors <- lapply(seq_along(axes), function(a) factor_of(release, axes, a, asked, family))
    list(records = records, grid = grid_of(formula, release, axes, factors, covariates, records, own[records$kept]))
  }
  release$amounts <- amounts_of(formula)
  named <- sort(asked[-1], method = "radix")
  release$absent <- silent_codes(release, named)
  held <- read(release)
  rare <- absent_codes(release, setdiff(named, names(release$absent)), held$grid)
  if (length(rare)) {
    release$absent <- c(release$absent, rare)
    held <- read(release)
  }
  root <- search(held$grid, MOMENTS[[family]], family, release)
  covariance_of(formula, release, held$grid, root, MOMENTS[[family]], held$records, sampling, asked, family)
}

variables_of <- function(formula, release) {
  if (!inherits(formula, "formula") || length(formula) != 3 || !is.name(formula[[2]]) || "." %in% all.vars(formula)) {
    refuse("the formula is not one response ~ covariates by name", "write for example income ~ sex + region")
  }
  asked <- unique(c(as.character(formula[[2]]), all.vars(formula[[3]])))
  require_known(release, asked)
  refuse_identifiers(release, asked)
  if (length(attr(stats::terms(formula), "offset"))) refuse("a formula cannot have an offset here", "use another model")
  if (asked[1] %in% all.vars(formula[[3]])) refuse("the response is a covariate too", "leave it out", quoted(asked[1]))
  for (name in asked) if (name %in% names(release$ranked)) refuse_ranked(name)
  asked
}

# The response as numbers for the codes of a variable: scores, or 0 and 1 of two categories; NA where it has no answer.
response_scores <- function(release, name, family) {
  v <- release$variables[[name]]
  if (family == "binomial") {
    held <- answered(v)
    if (sum(held) != 2) {
      refuse("a logistic response needs two categories that are answers", "use another response or family", quoted(name))
    }
    return(replace(rep(NA_real_, v$size), held, c(0, 1)))
  }
  checked(scores_of(release, name), family, name)
}

response_at <- function(release, name, family) {
  codes <- release$codes[[name]]
  if (!is.null(codes)) return(response_scores(release, name, family)[codes + 1])
  checked(numbers_at(release, name), family, name)
}

checked <- function(y, family, name) {
  held <- y[!is.na(y)]
  if (length(unique(held)) < 2) refuse("the response is constant", "choose another response", quoted(name))
  if (family == "binomial" && !setequal(held, c(0, 1))) {
    refuse("a logistic response must have the values 0 and 1", "recode it before a release", quoted(name))
  }
  if (family == "poisson" && any(held < 0 | held != floor(held))) {
    refuse("a Poisson response must be whole numbers >= 0", "use release_lm()", quoted(name))
  }
  y
}

# The axis that shows a variable: the one that changes it, if several hold it.
home_axis <- function(release, axes, name) {
  held <- which(vapply(axes, function(axis) name %in% axis$names, TRUE))
  changing <- which(vapply(axes, function(axis) name %in% axis$kept && name %in% release$perturbed, TRUE))
  if (length(changing)) changing[1] else held[1]
}

# One axis of a regression: `codes` of the covariates in each of its X true cells, and B (released, X), also times y.
factor_of <- function(release, axes, a, asked, family) {
  axis <- axes[[a]]
  own <- Filter(function(name) name %in% axis$names && home_axis(release, axes, name) == a, asked)
  names <- setdiff(own, asked[1])
  true <- axis$cells[, match(names, axis$names), drop = FALSE]
  place <- distinct(split(true, col(true)), nrow(true)) + 1
  first <- match(seq_len(max(place)), place)
  unit <- 1 * outer(place, seq_along(first), "==")
  y <- if (asked[1] %in% own) response_scores(release, asked[1], family)[axis$cells[, match(asked[1], axis$names)] + 1]
  absent <- rep(FALSE, nrow(true))  # who has no answer has no weight
  if (!is.null(y)) {
    absent <- is.na(y)
    y[absent] <- 0
  }
  for (j in seq_along(names)) absent <- absent | true[, j] %in% release$absent[[names[j]]]
  unit[absent, ] <- 0
  found <- list(names = names, codes = true[first, , drop = FALSE], unit = unit, y = y, looks = axis$looks,
                weights = if (length(names) || any(absent)) solved(axis, unit) else matrix(1, length(axis$looks), 1))
  if (!is.null(y)) found$times_y <- solved(axis, unit * y)
  found$naive <- unit[axis$looks, , drop = FALSE]
  found$clear <- is.null(axis$inverse)
  found
}
