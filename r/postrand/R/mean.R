release_mean <- function(release, variable, by = NULL, weights = NULL, strata = NULL, psu = NULL, recorded = TRUE) {
  if (length(variable) != 1 || variable %in% by) refuse("name one variable, which is not in by", "", quoted(variable))
  sampling <- sampling_of(release, weights, strata, psu, recorded)
  require_known(release, variable)
  refuse_identifiers(release, variable)
  hidden <- variable %in% release$perturbed
  if (variable %in% names(release$ranked)) {
    alone <- is.null(by) && !sampling$weighted && sampling$kind == "records" && is_one(sampling$stratum)
    if (!alone || release$ranked[[variable]] != "permute") refuse_ranked(variable)
  }
  y <- if (hidden) NULL else numbers_at(release, variable)
  asked <- c(by, if (hidden) variable)
  axes <- if (length(asked)) axes_of(release, asked) else list()
  functions <- lapply(axes, function(axis) if (hidden && variable %in% axis$kept) scores_on(release, axis, variable))
  axes <- lapply(axes, showing, release = release, names = by)
  records <- gathered(release, axes, sampling, present = if (hidden) TRUE else !is.na(y))
  cases <- if (hidden) cases_of(records) else cases_of(records, y[records$kept])
  above <- Map(operator_of, axes, lapply(functions, function(f) if (!is.null(f)) ifelse(is.na(f), 0, f)))
  below <- Map(operator_of, axes, lapply(functions, function(f) if (anyNA(f)) 1 * !is.na(f)))
  require_room(length(cases$count) * prod(vapply(above, ncol, 1)))
  shown <- combinations(axes, by %or% character())
  values <- if (hidden) NULL else y[records$kept][cases$first]
  found <- ratio_of(contributed(above, cases, shown), contributed(below, cases, shown), values, cases, sampling,
                    perturbed = any(vapply(axes, function(axis) !is.null(axis$inverse), TRUE)))
  what <- paste0("Mean of ", variable, if (length(by)) paste0(" by ", paste(by, collapse = ", ")))
  labels <- labels_at(release, shown$codes, by %or% character())
  estimate_of(release, labels, found$value, found$z, records, sampling, c(by, variable), what, found$interval,
              found$unclear, c(nominal_warnings(release, variable), absent_note(release, variable),
                               limit_warnings(release, variable, "mean"), band_warnings(release, variable, "mean"),
                               too_few(labels, found$unclear, partly = any(vapply(functions, anyNA, TRUE)))),
              response = variable)
}

# One row for each case, one column for each combination in the order of the table.
contributed <- function(operators, cases, shown) {
  contributions(operators, cases$places, length(cases$count))[, shown$order, drop = FALSE]
}

# The same axis with other variables kept.
showing <- function(axis, names, release) {
  axis$kept <- axis$names[axis$names %in% names & axis$names %in% axis$kept]
  axis$sizes <- sizes_of(release, axis$kept)
  axis
}

# Categories as numbers: NA for those that mean no answer.
scores_of <- function(release, name) {
  v <- release$variables[[name]]
  held <- if (v$kind == "logical") 1 * v$categories else suppressWarnings(as.numeric(v$categories))
  held[v$categories %in% v$missing_codes] <- NA
  if (all(is.na(held)) || any(is.na(held) & !v$categories %in% v$missing_codes)) {
    refuse("the categories are not numbers", "ask for a table, which takes any categories", quoted(name))
  }
  c(held, rep(NA, v$size - length(held)))
}

scores_on <- function(release, axis, name) {
  scores_of(release, name)[axis$cells[, match(name, axis$names)] + 1]
}

numbers_at <- function(release, name) {
  codes <- release$codes[[name]]
  if (!is.null(codes)) return(scores_of(release, name)[codes + 1])
  y <- release$data[[name]]
  if (is.logical(y)) y <- 1 * y
  if (!is.numeric(y) || any(is.infinite(y))) refuse("the column is not numeric", "ask for a number", quoted(name))
  y
}

# The roots of sum(w (y b - mu d)) = 0, one for each column of b and d; a column without a certain size is unclear.
ratio_of <- function(b, d, y, cases, sampling, perturbed) {
  shift <- if (is.null(y)) 0 else mean(y)
  flat <- !is.null(y) && max(abs(y - shift)) <= 1e-13 * max(abs(y))
  a <- cases$weight * (if (is.null(y)) b else if (flat) 0 * b else (y - shift) * b)
  d <- cases$weight * d
  count <- cases$count
  size <- colSums(count * d)
  root <- ifelse(size > 0, colSums(count * a) / ifelse(size > 0, size, 1), NA)
  at <- ifelse(is.na(root), 0, root)
  z <- deviations(a - d * rep(at, each = nrow(d)), cases, sampling)
  if (sampling$kind == "units") {
    error <- sqrt(colSums(deviations(d, cases, sampling)^2))
    unclear <- if (perturbed) size <= stats::qt(0.975, sampling$freedom) * error else !(size > 0)
    ends <- NULL
  } else {
    equation <- equation_of(a, d, at, z, cases, sampling, flat)
    equation$known <- !is.na(root)
    ends <- function(level) shift + bounds_of(equation, level)
    unclear <- rowSums(is.infinite(bounds_of(equation, 0.95))) > 0
  }
  list(value = shift + root, z = z / rep(ifelse(size > 0, size, 1), each = nrow(z)), unclear = unclear, interval = ends)
}

# The estimating equation of each group: its coefficients in powers of mu, those of its variance, and its shape at
# the root.
equation_of <- function(a, d, root, z, cases, sampling, flat) {
  za <- deviations(a, cases, sampling)
  zd <- deviations(d, cases, sampling)
  n <- sum(cases$count)
  spread <- colSums(z^2)
  sums <- moments_of(a - d * rep(root, each = nrow(d)), cases)
  skew <- ifelse(spread > 0, sums$third / ifelse(spread > 0, spread, 1)^1.5, 0)
  noise <- sums$fourth - spread^2 / n
  degrees <- ifelse(noise > 0, pmax(2 * spread^2 / ifelse(noise > 0, noise, 1), 1), Inf)
  degrees <- if (flat) rep(Inf, length(spread)) else ifelse(spread > 0, degrees, 1)
  list(above = colSums(cases$count * a), below = colSums(cases$count * d), records = n, root = root,
       variance = rbind(colSums(za^2), -2 * colSums(za * zd), colSums(zd^2)),
       skew = pmin(pmax(skew, -1), 1), degrees = degrees, error = sqrt(spread))
}

moments_of <- function(u, cases) {
  sums <- rowsum(u * cases$count, cases$group)
  n <- as.numeric(rowsum(cases$count, cases$group))
  centred <- u - (sums / n)[match(cases$group, as.numeric(rownames(sums))), , drop = FALSE]
  list(third = colSums(cases$count * centred^3), fourth = colSums(cases$count * centred^4))
}

# Fieller's set with the skewness removed (Hall 1992); infinite where the denominator cannot be told from zero.
bounds_of <- function(e, level) {
  quantile <- stats::qt((1 + level) / 2, e$degrees)
  flat <- abs(e$skew) < 1e-8
  safe <- ifelse(flat, 1, e$skew)
  cube <- function(x) sign(x) * abs(x)^(1 / 3)
  limit <- function(q) ifelse(flat, q, 3 / safe * (cube(1 + safe * (q - safe / 6)) - 1))
  end <- function(t, side) {
    inner <- pmin(pmax(t, -quantile), quantile)
    found <- fieller(e, inner) - (t - inner) * e$error / pmax(e$below, 1e-300)
    ifelse(e$known & !is.na(found), found, side * Inf)
  }
  cbind(end(limit(quantile), -1), end(limit(-quantile), 1))
}

fieller <- function(e, t) {
  inside <- t^2 < e$records
  share <- ifelse(inside, t^2 / ifelse(inside, 1 - t^2 / e$records, 1), Inf)
  lead <- e$below^2 - share * e$variance[3, ]
  half <- e$above * e$below + share * e$variance[2, ] / 2
  root_of(lead, half, half^2 - lead * (e$above^2 - share * e$variance[1, ]), -sign(t))
}

# The lower (side -1) or upper end of {x : lead x^2 - 2 half x + c <= 0}; without lead > 0 it has no end.
root_of <- function(lead, half, discriminant, side) {
  bounded <- !is.na(lead) & lead > 0
  ifelse(bounded, (half + side * sqrt(pmax(discriminant, 0))) / ifelse(bounded, lead, 1), side * Inf)
}

too_few <- function(labels, unclear, partly = FALSE) {
  if (!any(unclear)) return(character())
  groups <- if (length(labels)) do.call(paste, c(unname(lapply(labels, as.character)), sep = "/"))[unclear] else "all"
  named <- paste0(paste(utils::head(groups, 5), collapse = ", "), if (length(groups) > 5) ", ...")
  if (partly && length(labels)) {
    return(paste0("How many records of ", named, " have a value cannot be told from zero: perhaps none has one, and ",
                  "then there is nothing to estimate. If some have one, merge categories."))
  }
  paste0("Too few records of ", named, " survive the perturbation: the size of the group cannot be distinguished from zero, and its interval is ",
         "infinite. Merge categories, or use fewer variables.")
}

# Codes that only name categories: their mean is a number, and says nothing.
nominal_warnings <- function(release, name) {
  v <- release$variables[[name]]
  numbers <- suppressWarnings(as.numeric(v$categories))
  shares <- all(numbers[!v$categories %in% v$missing_codes] %in% c(0, 1))
  if (!is_coded(release, name) && (v$ordered || shares || !labels_name(v))) return(character())
  shown <- if (length(v$named)) paste(v$categories, v$named, sep = " = ") else v$categories
  paste0("The numbers of ", name, " are codes (", paste(utils::head(shown, 3), collapse = ", "),
         if (length(shown) > 3) ", ...", "), and this calculates with them as amounts. Ask for a table of ", name,
         "; if the codes are a scale, set ordered = true in the codebook of the next release.")
}

# Whether labels say what numbers stand for, as names do, and do not repeat the number.
labels_name <- function(v) {
  if (!length(v$named)) return(FALSE)
  numbers <- suppressWarnings(as.numeric(v$categories))
  asked <- !v$categories %in% v$missing_codes
  named <- v$named[asked]
  before <- ifelse(grepl("^\\s*[^\\W\\d].*\\d\\s*$", named, perl = TRUE), sub("\\s*\\d+\\s*$", "", trimws(named)), NA)
  names_end <- !is.na(before) & (duplicated(before) | duplicated(before, fromLast = TRUE))  # Land 1, Land 2
  repeated <- mapply(function(number, label) {
    rest <- sub("^\\s*\\d+\\s*[.):=]+(?=\\s*\\D)", "", label, perl = TRUE)
    found <- regmatches(rest, gregexpr("\\d[\\d,]*(?:\\.\\d+)?", rest, perl = TRUE))[[1]]
    abs(number) %in% as.numeric(gsub(",", "", found))
  }, numbers[asked], named)
  sum(!is.na(numbers[asked]) & (names_end | !unlist(repeated))) > 1
}
