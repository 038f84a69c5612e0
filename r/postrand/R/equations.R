# The stable root of the corrected equations, where the Jacobian is positive definite: one, or a refusal.

COLLINEAR <- 1e-9
LEVERAGE <- 0.9
MAX_PREDICTOR <- 25
WAY_OUT <- paste("use fewer perturbed covariates, ask for a release with a higher epsilon, or use",
                 "'postrand estimate --method likelihood'")
FEW <- 30

scaled <- function(matrix) {
  scale <- sqrt(pmax(abs(diag(matrix)), 1e-300))
  matrix / outer(scale, scale)
}

is_definite <- function(matrix) {
  all(is.finite(matrix)) && min(eigen(scaled(matrix), TRUE, only.values = TRUE)$values) > COLLINEAR
}

no_root <- function(got, grid, release) {
  what <- paste0("the corrected equations have no single stable root (", got, "): ")
  pairs <- repeats(grid, release)
  if (length(pairs)) refuse(paste0(what, "terms repeat one another: ", paste(pairs, collapse = "; "), " ", SEEM), APART)
  named <- weakest(grid, release)
  least <- if (length(named)) paste0(", least of ", paste(named, collapse = ", ")) else ""
  merge <- "ask whoever makes the release to merge categories"
  merge <- if (length(named)) {
    paste("leave their variable out, or", merge, "or to name those that mean no answer as missing_codes, these first;",
          "else")
  } else paste0(merge, ",")
  refuse(paste0(what, "the perturbation leaves too little information", least), paste(merge, WAY_OUT))
}

# The perturbed categories of covariates below FEW effective records: at most three, weakest first; else the weakest.
weakest <- function(grid, release) {
  found <- numeric()
  for (one in categories_of(grid, release)) {
    if (length(one$at)) found[one$said] <- effective_of(grid, category_weights(grid, one))
  }
  found <- sort(found)
  names(utils::head(found, min(max(sum(found < FEW), 1), 3)))
}

# Codes of these covariates that mean no answer, and that are below FEW effective records.
absent_codes <- function(release, covariates, grid) {
  known <- categories_of(grid, release)
  found <- list()
  for (name in covariates) {
    silent <- silent_of(release$variables[[name]])
    own <- Filter(function(one) one$name == name && one$code %in% silent, known)
    many <- Filter(function(one) effective_of(grid, category_weights(grid, one)) >= FEW, own)
    rare <- setdiff(silent, vapply(many, function(one) one$code, 0))
    if (length(rare)) found[[name]] <- rare
  }
  found
}

# t|t| / sum(a^2), t = sum(a), with a the corrected weight of each record in a category: what is negative has none.
effective_of <- function(grid, own) {
  own <- own * grid$cases$weight
  total <- sum(grid$cases$count * own)
  total * abs(total) / max(sum(grid$cases$count * own^2), .Machine$double.xmin)
}

# The weight with which each case answers the response: 1 where it is not perturbed.
answering_of <- function(grid) {
  at <- which(vapply(grid$factors, function(f) !is.null(f$times_y), TRUE))
  if (length(at)) rowSums(grid$factors[[at]]$weights)[grid$cases$places[[at]]] else rep(1, length(grid$cases$count))
}

search <- function(grid, moments, family, release) {
  gram <- crossprod(grid$design, as.vector(grid$table) * grid$design)
  held <- if (family == "gaussian") gram else crossprod(grid$design, abs(as.vector(grid$table)) * grid$design)
  if (!all(is.finite(held)) || min(abs(eigen(scaled(held), TRUE, only.values = TRUE)$values)) < COLLINEAR) {
    refuse("the regression is not identified: its terms can be made of each other",
           "drop collinear terms, or merge categories that hardly occur", paste(grid$names, collapse = ", "))
  }
  if (family == "gaussian") {
    if (!is_definite(gram)) no_root("sums of squares are not positive definite", grid, release)
    return(solve(gram, grid$sums))
  }
  roots <- list()
  for (start in starts_of(grid, moments, family, gram)) {
    root <- newton(grid, start, moments)
    known <- is.null(root) || any(vapply(roots, function(other) !are_apart(grid, root, other), TRUE))
    if (!known) roots <- c(roots, list(root))
  }
  if (length(roots) > 1) no_root(paste(length(roots), "roots"), grid, release)
  clear <- all(vapply(grid$factors, function(f) f$clear, TRUE))
  far <- length(roots) && family == "binomial" && max(abs(predictors(grid, roots[[1]]))) > MAX_PREDICTOR
  if (far || (clear && !length(roots))) {
    refuse("the response is separated: covariates predict it perfectly",
           "drop or merge the categories of the covariate")
  }
  if (!length(roots)) no_root("no root from any start", grid, release)
  roots[[1]]
}

predictors <- function(grid, theta) as.vector(grid$design %*% theta)[as.vector(grid$table) != 0]

are_apart <- function(grid, one, two) max(abs(predictors(grid, one) - predictors(grid, two))) > 1e-3

# The fit of a linear model on the scale of the response, the regression that takes released cells for true ones, and
# three constants.
starts_of <- function(grid, moments, family, gram) {
  held <- abs(as.vector(grid$table))
  cross <- inverse_of(crossprod(grid$design, held * grid$design))$values
  fitted <- function(eta) as.vector(cross %*% crossprod(grid$design, held * rep_len(eta, length(held))))
  centre <- centre_of(grid, family)
  link <- if (family == "binomial") stats::qlogis else log
  inside <- function(mean) {
    if (family == "binomial") pmin(pmax(mean, 0.02), 0.98) else pmax(mean, 0.1 * centre)
  }
  starts <- list()
  if (is_definite(gram)) starts <- list(fitted(link(inside(as.vector(grid$design %*% solve(gram, grid$sums))))))
  constant <- fitted(link(centre))
  if (all(vapply(grid$factors, function(f) f$clear, TRUE))) return(c(starts, list(constant)))
  naive <- newton(naive_of(grid), constant, moments)
  if (!is.null(naive)) starts <- c(starts, list(naive))
  c(starts, lapply(c(0, 1, -1), function(shift) constant + shift * fitted(1)))
}

# The corrected mean of the response, inside its range.
centre_of <- function(grid, family) {
  cases <- grid$cases
  y <- grid$outcome
  if (is.null(y)) {
    at <- which(vapply(grid$factors, function(f) !is.null(f$times_y), TRUE))
    y <- rowSums(grid$factors[[at]]$times_y)[cases$places[[at]]]
  }
  mean <- sum(cases$count * cases$weight * y) / sum(cases$count)
  if (family == "binomial") min(max(mean, 0.02), 0.98) else max(mean, 1e-3)
}

# Newton's method, steps halved until the equation is shorter in the metric of the convex Jacobian at the start.
newton <- function(grid, theta, moments) {
  now <- total_of(grid, theta, moments)
  convex <- total_of(grid, theta, moments, convex = TRUE)$slope
  if (!is_definite(convex)) return(NULL)
  metric <- solve(convex, tol = 0)
  length_of <- function(pull) as.numeric(pull %*% metric %*% pull)
  size <- length_of(now$pull)
  for (step in seq_len(60)) {
    slope <- if (is_definite(now$slope)) now$slope else total_of(grid, theta, moments, convex = TRUE)$slope
    if (!is_definite(slope)) return(NULL)
    move <- solve(slope, now$pull, tol = 0)
    for (halving in 0:30) {
      ahead <- total_of(grid, theta + move, moments)
      reached <- length_of(ahead$pull)
      if (isTRUE(reached < size || reached < 1e-18)) break
      move <- move / 2
    }
    if (!isTRUE(reached < size || reached < 1e-18)) {
      return(if (size < 1e-12 && is_definite(now$slope)) theta else NULL)
    }
    theta <- theta + move
    now <- ahead
    size <- reached
    if (abs(sum(now$pull * move)) < 1e-18 && size < 1e-12) return(if (is_definite(now$slope)) theta else NULL)
  }
  NULL
}

# Each case's influence on the root, and its share of the profiled Jacobian of each coefficient.
influence_of <- function(grid, theta, moments) {
  inverse <- solve(total_of(grid, theta, moments)$slope, tol = 0)
  at <- moments(as.vector(grid$design %*% theta))
  mean <- matrix(at$mean, grid$cells)
  curve <- matrix(at$curve, grid$cells)
  turned <- grid$design %*% inverse
  found <- leverage <- matrix(0, nrow(grid$fixed), ncol(inverse))
  for (part in chunks(grid)) {
    row <- grid$cases$row[part]
    weights <- weights_in(grid, part, function(f) f$weights)
    expected <- gather(grid, weights * t(mean[, row, drop = FALSE]), row)
    pull <- grid$fixed[part, , drop = FALSE] - expected
    found[part, ] <- grid$cases$weight[part] * pull %*% inverse
    bent <- list(design = turned^2, cells = grid$cells)
    bent <- gather(bent, weights * t(curve[, row, drop = FALSE]), row)
    leverage[part, ] <- grid$cases$weight[part] * bent / rep(diag(inverse), each = length(part))
  }
  list(influence = found, leverage = leverage)
}

covariance_of <- function(formula, release, grid, theta, moments, records, sampling, asked, family) {
  cases <- grid$cases
  each <- influence_of(grid, theta, moments)
  share <- each$leverage
  if (sampling$kind == "records") each$influence <- each$influence / (1 - pmin(share, LEVERAGE))
  z <- deviations(each$influence, cases, sampling)
  g <- deviations(share, cases, sampling)
  pivot <- list(value = theta, variance = colSums(z^2), mixed = colSums(z * g), slope = colSums(g^2),
                freedom = sampling$freedom %or% freedom_of(each$influence, cases, colSums(z^2)))
  pivot$freedom <- rep_len(pivot$freedom, length(theta))
  ends <- function(level) pivot_bounds(pivot, level)
  silent <- rowSums(is.infinite(ends(0.95))) > 0
  if (family != "gaussian") silent <- silent | apply(abs(ends(0.95) - as.vector(theta)), 1, min) > 10
  amount <- if (family != "binomial") asked[1]
  limits <- c(limit_warnings(release, c(amount, amounts_of(formula)), "regression"),
              band_warnings(release, amount, "regression"))
  unknown <- if (any(silent)) {
    paste0("The release has no information about ", paste(grid$names[silent], collapse = ", "),
           ": the interval is unbounded or too wide to use. ", cure_of(records))
  }
  named <- c(if (length(amount)) nominal_warnings(release, amount), absent_note(release, asked[1]),
             absent_notes(release))
  repeated <- if (any(silent)) repeats_note(grid, release)
  notes <- c(repeated, named, reference_notes(release, asked[-1]), amount_notes(formula, release), limits, unknown)
  what <- paste(c(gaussian = "Linear", binomial = "Logistic", poisson = "Poisson")[[family]], "regression",
                paste(deparse(formula), collapse = " "))
  labels <- data.frame(term = grid$names)
  named <- c(asked[1], sort(asked[-1], method = "radix"))
  estimate_of(release, labels, as.vector(theta), z, records, sampling, named, what, ends, notes = notes,
              more = list(p_value = pivot_test(pivot), modelled = modelled(release, asked[1], family)),
              response = asked[1])
}

# Which category a logistic response models, as Python says it; NULL of other families.
modelled <- function(release, name, family) {
  if (family != "binomial") return(NULL)
  v <- release$variables[[name]]
  labels <- if (length(v$categories)) v$labels[answers_first(v)] else c(0, 1)
  paste0("the probability of ", name, " = ", labels[2], "; for that of ", name, " = ", labels[1],
         ", change the sign of every coefficient")
}

# What to do about a coefficient of which the release has no information.
cure_of <- function(records) {
  if (!records$split) return("Merge categories, or leave the term out.")
  paste0(format(length(records$kept), big.mark = ","), " records show all variables of the model. Use fewer of them, ",
         "or ask for a release whose split has them as a table in its workload, which more records then show.")
}

# Degrees of freedom that match the kurtosis of the influences (Satterthwaite).
freedom_of <- function(u, cases, variance) {
  fourth <- moments_of(u, cases)$fourth
  excess <- fourth / pmax(variance, .Machine$double.xmin)^2 - 1 / sum(cases$count)
  pmax(2 / pmax(excess, 1e-12), 1)
}

# A score test inverted, with the noise of the Jacobian (Fieller 1954).
pivot_bounds <- function(p, level) {
  q <- stats::qt((1 - level) / 2, p$freedom)^2
  lead <- 1 - q * p$slope
  discriminant <- (q * p$mixed)^2 + lead * q * p$variance
  p$value + cbind(root_of(lead, -q * p$mixed, discriminant, -1), root_of(lead, -q * p$mixed, discriminant, 1))
}

pivot_test <- function(p) {
  spread <- p$variance + 2 * p$value * p$mixed + p$value^2 * p$slope
  2 * stats::pt(-abs(p$value) / sqrt(pmax(spread, .Machine$double.xmin)), p$freedom)
}
