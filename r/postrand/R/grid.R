# The corrected equations over the grid of distinct unperturbed covariates (V) and true cells (X, the fastest):
# U(theta) = sum_i w_i sum_x B[r_i, x] d(x, v_i) (y_i - mean(d(x, v_i)' theta)).

MAX_CELLS <- 2000
MAX_DESIGN <- 2^25

grid_of <- function(formula, release, axes, factors, clear, records, y) {
  n <- length(records$kept)
  keys <- lapply(clear, function(name) (release$codes[[name]] %or% release$data[[name]])[records$kept])
  row <- distinct(keys, n) + 1
  rows <- match(seq_len(max(row)), row)
  sizes <- vapply(factors, function(f) nrow(f$codes), 1)
  cells <- all_cells(sizes)
  if (nrow(cells) > MAX_CELLS) {
    refuse(paste(nrow(cells), "combinations of perturbed categories are too many"), "use fewer perturbed variables")
  }
  latent <- unlist(lapply(factors, function(f) f$names))
  codes <- do.call(cbind, lapply(seq_along(factors), function(a) factors[[a]]$codes[cells[, a] + 1, , drop = FALSE]))
  codes <- codes %or% matrix(0, 1, 0)
  design <- design_of(formula, release, records, clear, latent, codes, rows, seen_of(axes, factors, records))
  cases <- if (is.null(y)) cases_of(records, row) else cases_of(records, row, y)
  cases$row <- row[cases$first]
  cases$weight <- cases$weight * n / sum(cases$count * cases$weight)
  outcome <- if (is.null(y)) NULL else y[cases$first]
  made(list(design = design, cells = nrow(cells), cases = cases, factors = factors, outcome = outcome,
            names = colnames(design), kept = records$kept, compared = compared_of(formula, release, c(clear, latent))))
}

# The covariates, by name, of which a formula compares categories: those that it does not take as numbers.
compared_of <- function(formula, release, names) {
  numbers <- Filter(function(name) is_amount(release, name), amounts_of(formula))
  sort(Filter(function(name) !is.null(release$codes[[name]]), setdiff(names, numbers)), method = "radix")
}

# The released codes of the latent covariates, and each code that no record shows once, for the levels of a formula.
seen_of <- function(axes, factors, records) {
  found <- list()
  for (a in seq_along(factors)) {
    f <- factors[[a]]
    at <- axes[[a]]$cells[, match(f$names, axes[[a]]$names), drop = FALSE]
    shown <- at[f$looks[records$places[[a]]], , drop = FALSE]
    for (j in seq_along(f$names)) found[[f$names[j]]] <- list(seen = shown[, j], absent = setdiff(at[, j], shown[, j]))
  }
  found
}

# The places of a variable's categories in the order of their terms: the first is the reference, and those that mean no
# answer are last.
answers_first <- function(v) order(!answered(v))

# Which codes are answers: not those for no answer, nor a missing value that is a category.
answered <- function(v) {
  c(!v$categories %in% v$missing_codes, if (v$missing == "category") FALSE)
}

# The codes that mean no answer; none of a variable without categories.
silent_of <- function(v) {
  if (length(v$categories)) which(!answered(v)) - 1
}

# Which categories of a response mean no answer, so that who has them is left out; of a perturbed one it is not known
# who they are.
absent_note <- function(release, name) {
  absent <- absent_of(release, name)
  if (!length(absent)) return(NULL)
  paste0("Who has no answer of ", name, " (", sub("(missing)", "missing", paste(absent, collapse = ", "), fixed = TRUE),
         ") is left out", if (name %in% release$perturbed) {
           paste0("; ", name, " is perturbed, so the number of records includes them")
         }, ".")
}

absent_of <- function(release, name) {
  v <- release$variables[[name]]
  if (length(v$categories)) v$labels[!answered(v)]
}

# Which categories of covariates mean no answer, of numbers or where hardly any record has a response: who has them is
# left out.
absent_notes <- function(release) {
  vapply(names(release$absent), function(name) {
    told <- paste(release$variables[[name]]$labels[release$absent[[name]] + 1], collapse = ", ")
    few <- "too few such records count for a coefficient of their own"
    paste0("Who has no answer of ", name, " (", sub("(missing)", "missing", told, fixed = TRUE), ") is left out: ",
           if (is_amount(release, name)) "it enters as a number" else few, ".")
  }, "", USE.NAMES = FALSE)
}

# Of which variable a formula would take a code for no answer as the reference.
reference_notes <- function(release, names) {
  told <- lapply(names, function(name) {
    v <- release$variables[[name]]
    first <- if (!length(v$categories)) 1 else answers_first(v)[1]
    if (first == 1) return(character())
    paste0("Terms of ", name, " compare with ", v$labels[first], ", the first category that is an answer; those that ",
           "mean no answer come last.")
  })
  unlist(told) %or% character()
}

# Whether a formula takes the categories that are answers as amounts: numbers do, and the texts of a text file that are
# numbers as people write them, unless labels say what they stand for.
is_measured <- function(release, name) {
  v <- release$variables[[name]]
  own <- v$categories[!v$categories %in% v$missing_codes]
  if (!length(own)) return(FALSE)
  if (v$kind != "text") return(v$kind == "number")
  numbers <- suppressWarnings(as.numeric(own))
  written <- vapply(numbers, function(x) format(x, digits = 15, scientific = FALSE), "")
  !anyNA(numbers) && all(written == own) && (v$ordered && v$size > 2 || !labels_name(v))
}

# Whether a covariate with categories enters as numbers: those that mean no answer are left out.
is_amount <- function(release, name) {
  silent <- silent_of(release$variables[[name]])
  left <- name %in% release$amounts && all(silent %in% release$absent[[name]])
  is_measured(release, name) && (!length(silent) || left)
}

# The codes that mean no answer, of covariates that a formula takes as numbers.
silent_codes <- function(release, covariates) {
  found <- list()
  for (name in intersect(covariates, release$amounts)) {
    silent <- silent_of(release$variables[[name]])
    if (length(silent) && is_measured(release, name)) found[[name]] <- silent
  }
  found
}

# Which texts, and which codes that have labels, a formula takes as amounts, and could take otherwise.
amount_notes <- function(formula, release) {
  told <- lapply(sort(as.character(amounts_of(formula)), method = "radix"), function(name) {
    v <- release$variables[[name]]
    doubtful <- v$size > 2 && (v$kind == "text" || labels_name(v))
    if (!doubtful || !is_measured(release, name)) return(character())
    paste0(name, " enters as a number; factor(", name, ") compares its categories.")
  })
  unlist(told) %or% character()
}

# What a formula sees of a categorical variable: numbers, or a factor.
model_values <- function(release, name, codes) {
  v <- release$variables[[name]]
  if (is_amount(release, name)) {
    numbers <- suppressWarnings(as.numeric(v$categories))[seq_len(v$size)]
    numbers[!answered(v)] <- numbers[answers_first(v)[1]]  # which have no weight wherever they are
    return(numbers[codes + 1])
  }
  order <- setdiff(answers_first(v), release$absent[[name]] + 1)
  codes[codes %in% release$absent[[name]]] <- order[1] - 1  # which has no weight wherever it is
  factor(codes, order - 1, c(as.character(v$categories), if (v$missing == "category") "(missing)")[order])
}

design_of <- function(formula, release, records, clear, latent, codes, rows, seen) {
  n <- length(records$kept)
  extra <- max(0, vapply(seen, function(one) length(one$absent), 1))
  known <- grid <- list()
  for (name in latent) {
    more <- if (length(seen[[name]]$absent)) rep_len(seen[[name]]$absent, extra) else rep(seen[[name]]$seen[1], extra)
    known[[name]] <- model_values(release, name, c(seen[[name]]$seen, more))
    grid[[name]] <- model_values(release, name, rep(codes[, match(name, latent)], length(rows)))
  }
  for (name in clear) {
    own <- release$codes[[name]]
    values <- if (is.null(own)) numbers_at(release, name) else model_values(release, name, own)
    values <- values[records$kept]
    known[[name]] <- values[c(seq_len(n), rep(1, extra))]
    grid[[name]] <- values[rep(rows, each = nrow(codes))]
  }
  terms <- stats::delete.response(stats::terms(formula))
  known <- data.frame(known, check.names = FALSE, row.names = NULL)
  grid <- data.frame(grid, check.names = FALSE, row.names = NULL)
  size <- length(rows) * nrow(codes)
  if (!length(grid)) return(matrix(1, size, 1, dimnames = list(NULL, "(Intercept)")))
  frame <- stats::model.frame(terms, known, drop.unused.levels = TRUE, na.action = stats::na.pass)
  levels <- stats::.getXlevels(stats::terms(frame), frame)
  at <- stats::model.frame(stats::terms(frame), grid, xlev = levels, na.action = stats::na.pass)
  contrasts <- if (length(levels)) lapply(levels, function(one) "contr.treatment")
  found <- stats::model.matrix(stats::terms(frame), at, contrasts.arg = contrasts)
  if (!all(is.finite(found))) {
    refuse("a term of the formula is not a finite number for all values", "use another transformation")
  }
  if (length(found) > MAX_DESIGN) {
    refuse("the design is too large for this package", "round numeric covariates, or use 'postrand estimate'")
  }
  found
}

# Products of the axes' weights of some cases, over the true cells; `part` says which weights an axis gives.
weights_in <- function(grid, cases, part) {
  contributions(lapply(grid$factors, part), lapply(grid$cases$places, function(place) place[cases]),
                length(cases))
}

chunks <- function(grid) {
  n <- length(grid$cases$count)
  split(seq_len(n), (seq_len(n) - 1) %/% max(1, floor(2^21 / grid$cells)))
}

# sum_x weights[i, x] column[x, v_i] for each column of the design.
gather <- function(grid, weights, row) {
  found <- vapply(seq_len(ncol(grid$design)), function(j) {
    rowSums(weights * t(matrix(grid$design[, j], grid$cells)[, row, drop = FALSE]))
  }, numeric(length(row)))
  matrix(found, length(row))
}

# Sum the cases over the grid: signed weights of its cells, and each case's part of the equation that has y.
made <- function(grid) {
  cases <- grid$cases
  grid$table <- matrix(0, grid$cells, max(cases$row))
  grid$fixed <- matrix(0, length(cases$count), ncol(grid$design))
  for (part in chunks(grid)) {
    weights <- weights_in(grid, part, function(f) f$weights)
    sums <- rowsum(weights * (cases$count * cases$weight)[part], cases$row[part])
    at <- as.numeric(rownames(sums))
    grid$table[, at] <- grid$table[, at] + t(sums)
    outcome <- if (is.null(grid$outcome)) weights_in(grid, part, function(f) f$times_y %or% f$weights) else {
      weights * grid$outcome[part]
    }
    grid$fixed[part, ] <- gather(grid, outcome, cases$row[part])
  }
  grid$sums <- colSums(cases$count * cases$weight * grid$fixed)
  grid
}

# The equation and its negative Jacobian; convex: the latter with absolute weights.
total_of <- function(grid, theta, moments, convex = FALSE) {
  at <- moments(as.vector(grid$design %*% theta))
  w <- as.vector(grid$table)
  list(pull = grid$sums - as.vector(crossprod(grid$design, w * at$mean)),
       slope = crossprod(grid$design, (if (convex) abs(w) else w) * at$curve * grid$design))
}

# The same equations with released cells taken for true ones: a start.
naive_of <- function(grid) {
  grid$factors <- lapply(grid$factors, function(f) {
    f$weights <- f$naive
    if (!is.null(f$y)) f$times_y <- (f$unit * f$y)[f$looks, , drop = FALSE]
    f
  })
  made(grid)
}
